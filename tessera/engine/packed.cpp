#include "tessera/engine/packed.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/calls.hpp"

namespace tessera::engine {

using program::Wire;
using tensor::Tensor;

namespace {

constexpr float kMost = 127;

template <typename T>
void pack_blocks(const T* from, std::int64_t elements, std::int64_t block, std::uint8_t* to) {
  for (std::int64_t first = 0; first < elements; first += block) {
    const std::int64_t count = std::min(block, elements - first);
    T most = 0;
    bool is_finite = true;
    for (std::int64_t i = 0; i < count; ++i) {
      const T size = std::abs(from[first + i]);
      is_finite = is_finite && std::isfinite(size);
      most = std::max(most, size);
    }
    const float scale =
        is_finite ? static_cast<float>(most / kMost) : std::numeric_limits<float>::quiet_NaN();
    std::memcpy(to, &scale, sizeof scale);
    auto* values = reinterpret_cast<std::int8_t*>(to + sizeof scale);
    for (std::int64_t i = 0; i < block; ++i) {
      const T quotient = i < count && scale > 0 ? from[first + i] / static_cast<T>(scale) : T(0);
      values[i] = static_cast<std::int8_t>(std::clamp(std::nearbyint(quotient), T(-kMost), T(kMost)));
    }
    to += sizeof scale + static_cast<std::size_t>(block);
  }
}

template <typename T>
void unpack_blocks(const std::uint8_t* from, std::int64_t elements, std::int64_t block, T* to) {
  for (std::int64_t first = 0; first < elements; first += block) {
    float scale = 0;
    std::memcpy(&scale, from, sizeof scale);
    const auto* values = reinterpret_cast<const std::int8_t*>(from + sizeof scale);
    for (std::int64_t i = 0; i < std::min(block, elements - first); ++i)
      to[first + i] = static_cast<T>(scale) * static_cast<T>(values[i]);
    from += sizeof scale + static_cast<std::size_t>(block);
  }
}

}  // namespace

Tensor packed(const Tensor& flat, Wire wire, std::int64_t block) {
  if (wire == Wire::bf16) return flat.to(at::kBFloat16).contiguous().view(at::kByte);
  const Tensor wide = flat.to(tensor::wide(flat.scalar_type())).contiguous();
  Tensor out = tensor::empty({program::packed_bytes(flat.numel(), wire, block)}, at::kByte);
  if (wide.scalar_type() == at::kDouble)
    pack_blocks(wide.const_data_ptr<double>(), flat.numel(), block, out.mutable_data_ptr<std::uint8_t>());
  else
    pack_blocks(wide.const_data_ptr<float>(), flat.numel(), block, out.mutable_data_ptr<std::uint8_t>());
  return out;
}

Tensor unpacked(const Tensor& bytes, std::int64_t elements, at::ScalarType dtype, Wire wire,
                std::int64_t block) {
  if (wire == Wire::bf16) return bytes.view(at::kBFloat16).to(dtype);
  Tensor out = tensor::empty({elements}, tensor::wide(dtype));
  const Tensor dense = bytes.contiguous();
  if (out.scalar_type() == at::kDouble)
    unpack_blocks(dense.const_data_ptr<std::uint8_t>(), elements, block, out.mutable_data_ptr<double>());
  else
    unpack_blocks(dense.const_data_ptr<std::uint8_t>(), elements, block, out.mutable_data_ptr<float>());
  return out.to(dtype);
}

}  // namespace tessera::engine
