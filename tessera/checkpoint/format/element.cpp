#include "tessera/checkpoint/format/element.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::checkpoint {

namespace {

template <typename T>
T loaded(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
double plain(const std::byte* at) {
  return static_cast<double>(loaded<T>(at));
}

// Sign, exponent and fraction; the largest exponent is infinity or no number.
double small_float(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int most = (1 << exponent_bits) - 1, bias = most / 2;
  const int exponent = static_cast<int>(bits >> fraction_bits) & most;
  const auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  if (exponent == most)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

double half(const std::byte* at) { return small_float(loaded<std::uint16_t>(at), 5, 10); }

double bfloat16(const std::byte* at) {
  return std::bit_cast<float>(std::uint32_t{loaded<std::uint16_t>(at)} << 16);
}

double f8_e5m2(const std::byte* at) { return small_float(loaded<std::uint8_t>(at), 5, 2); }

// Without infinities: only all ones is no number.
double f8_e4m3(const std::byte* at) {
  const auto bits = loaded<std::uint8_t>(at);
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  if ((bits & 0x78) != 0x78) return small_float(bits, 4, 3);
  return (bits & 0x80 ? -1 : 1) * std::ldexp((bits & 7) + 8, 15 - 7 - 3);
}

double f8_e8m0(const std::byte* at) {
  const auto bits = loaded<std::uint8_t>(at);
  return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1, bits - 127);
}

constexpr std::pair<std::string_view, ElementReader> kReaders[] = {{"BOOL", plain<std::uint8_t>},
                                                                   {"U8", plain<std::uint8_t>},
                                                                   {"I8", plain<std::int8_t>},
                                                                   {"F8_E5M2", f8_e5m2},
                                                                   {"F8_E4M3", f8_e4m3},
                                                                   {"F8_E8M0", f8_e8m0},
                                                                   {"I16", plain<std::int16_t>},
                                                                   {"U16", plain<std::uint16_t>},
                                                                   {"F16", half},
                                                                   {"BF16", bfloat16},
                                                                   {"I32", plain<std::int32_t>},
                                                                   {"U32", plain<std::uint32_t>},
                                                                   {"F32", plain<float>},
                                                                   {"I64", plain<std::int64_t>},
                                                                   {"U64", plain<std::uint64_t>},
                                                                   {"F64", plain<double>}};

}  // namespace

ElementReader element_reader(std::string_view dtype) {
  for (const auto& [word, reader] : kReaders)
    if (word == dtype) return reader;
  TESSERA_CHECK(false, "dtype ", dtype);
}

}  // namespace tessera::checkpoint
