// Where our parameters lie in files that `transformers` wrote: what the families say of their own
// (tessera/families), found by name.
#pragma once

#include <string>

#include "tessera/foreign/foreign_family.hpp"

namespace tessera::checkpoint {

foreign::ForeignPlace foreign_place(const std::string& name);

// The ways in which a parameter may lie there in several tensors.
std::vector<foreign::ForeignStack> foreign_stacks(const std::string& name,
                                                  const std::vector<std::int64_t>& shape);
// A parameter in one tensor there: gate and up of stacked experts are one dim.
std::vector<std::int64_t> foreign_shape(const std::vector<std::int64_t>& shape);
// What each of so many tensors has of the shape.
std::vector<std::int64_t> shape_in_stack(const std::vector<std::int64_t>& shape, std::size_t num_tensors);

// Names without which no parameter is lost: masks and frequencies that older files hold.
bool is_derived(const std::string& foreign_name);

// The name without the prefix that some files leave out.
std::string without_prefix(const std::string& name);

}  // namespace tessera::checkpoint
