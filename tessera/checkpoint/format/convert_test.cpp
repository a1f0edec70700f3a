#include "tessera/checkpoint/format/convert.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tessera::checkpoint {
namespace {

template <typename To, typename From>
To one(From x, const char* from, const char* to) {
  const auto out = converted(std::as_bytes(std::span(&x, 1)), from, to);
  To y;
  EXPECT_EQ(out.size(), sizeof y);
  std::memcpy(&y, out.data(), sizeof y);
  return y;
}

std::uint16_t half(float x) { return one<std::uint16_t>(x, "F32", "F16"); }
std::uint16_t bf16(float x) { return one<std::uint16_t>(x, "F32", "BF16"); }

TEST(Convert, EveryHalfAndEveryBf16ComesBackFromFloat) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float of_half = one<float>(bits, "F16", "F32"), of_bf16 = one<float>(bits, "BF16", "F32");
    if (std::isnan(of_half))
      EXPECT_TRUE((half(of_half) & 0x7fff) > 0x7c00);
    else
      EXPECT_EQ(half(of_half), bits);
    if (std::isnan(of_bf16))
      EXPECT_TRUE((bf16(of_bf16) & 0x7fff) > 0x7f80);
    else
      EXPECT_EQ(bf16(of_bf16), bits);
  }
}

// Between two neighbours: the nearer one, and at the middle the even one.
TEST(Convert, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t i = 0; i < 0x7c00; ++i) {
    const auto low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(i + 1);
    const float a = one<float>(low, "F16", "F32");
    const float b = high == 0x7c00 ? 65536.0f : one<float>(high, "F16", "F32");
    const float middle = (a + b) / 2;
    EXPECT_EQ(half(middle), i % 2 == 0 ? low : high) << i;
    EXPECT_EQ(half(std::nextafter(middle, 0.0f)), low) << i;
    EXPECT_EQ(half(std::nextafter(middle, 1e9f)), high) << i;
  }
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()), 0x7f80) << "infinity";
  EXPECT_EQ(half(-1e9f), 0xfc00);
}

TEST(Convert, DoublesAreNarrowedAndWidened) {
  EXPECT_EQ(one<double>(0.1f, "F32", "F64"), static_cast<double>(0.1f));
  EXPECT_EQ(one<float>(0.1, "F64", "F32"), 0.1f);
  EXPECT_EQ(one<std::uint16_t>(1.5, "F64", "BF16"), 0x3fc0);
  EXPECT_EQ(one<double>(0.1, "F64", "F64"), 0.1);
  EXPECT_EQ(one<std::int64_t>(std::int64_t{7}, "I64", "I64"), 7) << "what is equal need not be known";
}

}  // namespace
}  // namespace tessera::checkpoint
