#include "tessera/checkpoint/format/convert.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/element.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"

namespace tessera::checkpoint {

namespace {

// A number that is not one stays so when its last bits are cut.
std::uint16_t bfloat16(double number) {
  const auto x = static_cast<float>(number);
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t half(double number) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
  const std::uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  const auto signed_half = [&](std::uint32_t rest) { return static_cast<std::uint16_t>(sign | rest); };
  if (size > 0x7f800000) return signed_half(0x7e00);
  if (size >= 0x47800000) return signed_half(0x7c00);  // 65536 and above
  // Below the least normal half (2^-14) they lie 2^-24 apart: adding 0.5 leaves them in the last bits of the
  // sum, rounded.
  if (size < 0x38800000)
    return signed_half(std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000);
  // Rebiased; a carry into the exponent is right, up to infinity.
  return signed_half((size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13);
}

template <typename To, typename Narrow>
std::vector<std::byte> all(std::span<const std::byte> elements, std::string_view from, const Narrow& narrow) {
  const ElementReader read = element_reader(from);
  const std::size_t element = element_bytes(from).value(), count = elements.size() / element;
  std::vector<std::byte> out(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    const To y = narrow(read(elements.data() + i * element));
    std::memcpy(out.data() + i * sizeof(To), &y, sizeof(To));
  }
  return out;
}

}  // namespace

std::vector<std::byte> converted(std::span<const std::byte> elements, std::string_view from,
                                 std::string_view to) {
  if (from == to) return {elements.begin(), elements.end()};
  if (to == "F32") return all<float>(elements, from, [](double x) { return static_cast<float>(x); });
  if (to == "F64") return all<double>(elements, from, [](double x) { return x; });
  if (to == "BF16") return all<std::uint16_t>(elements, from, bfloat16);
  TESSERA_CHECK(to == "F16", "no conversion to ", to);
  return all<std::uint16_t>(elements, from, half);
}

}  // namespace tessera::checkpoint
