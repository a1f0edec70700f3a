// Where our parameters lie in files that `transformers` wrote: what the families say of their own
// (tessera/families), found by name.
#pragma once

#include <string>

#include "tessera/checkpoint/foreign/foreign_family.hpp"

namespace tessera::checkpoint {

ForeignPlace foreign_place(const std::string& name);

// Names without which no parameter is lost: masks and frequencies that older files hold.
bool is_derived(const std::string& foreign_name);

// The name without the prefix that some files leave out.
std::string without_prefix(const std::string& name);

}  // namespace tessera::checkpoint
