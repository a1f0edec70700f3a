// Reads elements of every dtype of safetensors as doubles.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::checkpoint {

// Reads the element that begins there. The dtype must be known. Integers beyond 2^53 are rounded.
using ElementReader = double (*)(const std::byte*);
ElementReader element_reader(std::string_view dtype);

}  // namespace tessera::checkpoint
