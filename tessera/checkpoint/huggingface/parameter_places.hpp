// Finds where in given weights each parameter of a model lies: under our own name, or where `transformers`
// puts it, with or without its prefix.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/huggingface/foreign.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"

namespace tessera::checkpoint {

// A parameter of the model that is to be read.
struct Wanted {
  std::string name;
  std::vector<std::int64_t> shape;
};

// Among tensors of these names; its own name if it is in none of its places.
foreign::ForeignPlace place_of(const std::string& name,
                               const std::function<bool(const std::string&)>& is_there);
foreign::ForeignPlace place_of(const std::string& name, const TensorFiles& files);

// The tensors that a parameter of this shape lies in, one after the other, if it is stacked and any of them
// is there.
std::optional<std::vector<std::string>> stack_of(const Wanted& parameter,
                                                 const std::function<bool(const std::string&)>& is_there);
std::optional<std::vector<std::string>> stack_of(const Wanted& parameter, const TensorFiles& files);

// Throws UserError naming what is missing, surplus or of another shape, or a head that is not the table it is
// tied to. The first parameter is the table of the tokens.
void check_fits(const TensorFiles& files, std::span<const Wanted> parameters);

}  // namespace tessera::checkpoint
