// Values in fewer bytes, as they travel: Wire of program/ir/tables.hpp.
#pragma once

#include <cstdint>

#include "tessera/program/ir/tables.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::engine {

// bf16: rounded to nearest even. int8: of each block x the scale s = max |x| / 127 in fp32, and x / s rounded
// to nearest even; where an element is not finite, so is the scale. Of a flat, on whatever device; bytes as
// kByte.
tensor::Tensor packed(const tensor::Tensor& flat, program::Wire wire, std::int64_t block);
tensor::Tensor unpacked(const tensor::Tensor& bytes, std::int64_t elements, at::ScalarType dtype,
                        program::Wire wire, std::int64_t block);

}  // namespace tessera::engine
