// Converts numbers from one dtype to another, to the nearest, ties to even, as every other implementation
// does.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::checkpoint {

// Elements of a known dtype as elements of `to` ("F32", "F64", "BF16", "F16"), or of the same.
std::vector<std::byte> converted(std::span<const std::byte> elements, std::string_view from,
                                 std::string_view to);

}  // namespace tessera::checkpoint
