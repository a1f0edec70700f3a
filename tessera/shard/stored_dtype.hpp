// The name of a dtype in a file of tensors.
#pragma once

#include <string>

#include "tessera/tensor/tensor.hpp"

namespace tessera::shard {

// "F32" and so on, of floating-point tensors.
std::string stored_word(at::ScalarType dtype);

// The other way; throws UserError that begins with `where` for a word that no weight may have.
at::ScalarType stored_dtype(const std::string& word, const std::string& where);

}  // namespace tessera::shard
