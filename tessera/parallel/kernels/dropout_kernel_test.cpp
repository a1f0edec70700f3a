// The kernel for CUDA, compiled by an ordinary compiler and run thread by thread, against the CPU's.
#include "tessera/parallel/testing/cuda_shim.hpp"
// First the words, then what is written in them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/random.hpp"
#include "tessera/parallel/kernels/dropout_kernel.hpp"
#include "tessera/parallel/kernels/dropout_op.hpp"

namespace tessera::parallel::kernels {
namespace {

using tensor::Tensor;

// As launch_dropout of dropout.cu does it.
template <typename T, typename Wide>
void launch_with(const DropoutLaunch& launch) {
  const Grid grid = dropout_grid(launch);
  const auto scale = static_cast<Wide>(dropout_scale(launch.dropped));
  run_grid({grid.x, grid.y}, {kLanes, kRowsOfBlock}, [&] { dropout_kernel<T, Wide>(launch, scale); });
}
void launch_here(const DropoutLaunch& launch) {
  switch (launch.element) {
    case Element::fp32:
      return launch_with<float, float>(launch);
    case Element::fp64:
      return launch_with<double, double>(launch);
    case Element::bf16:
      return launch_with<Bf16, float>(launch);
    case Element::fp16:
      return launch_with<Fp16, float>(launch);
  }
}

Tensor by_kernel(const Tensor& x, const Mask& mask, Element element) {
  const Tensor out = tensor::empty(x.sizes(), x.scalar_type()).fill_(-7);
  launch_here({.element = element,
               .x = x.const_data_ptr(),
               .out = out.mutable_data_ptr(),
               .samples = mask.samples.const_data_ptr<std::int64_t>(),
               .positions = mask.positions.const_data_ptr<std::int64_t>(),
               .rows = static_cast<std::uint32_t>(x.size(0)),
               .channels = static_cast<std::uint32_t>(x.size(1)),
               .first = static_cast<std::uint32_t>(mask.first),
               .positions_per_sample = static_cast<std::uint32_t>(mask.positions.numel()),
               .first_channel = static_cast<std::uint32_t>(mask.first_channel),
               .key = mask.key,
               .dropped = static_cast<std::uint32_t>(mask.dropped)});
  return out;
}

struct Type {
  at::ScalarType dtype;
  Element element;
};
constexpr Type kTypes[] = {{at::kFloat, Element::fp32},
                           {at::kDouble, Element::fp64},
                           {at::kBFloat16, Element::bf16},
                           {at::kHalf, Element::fp16}};

// Of all sizes, down to those that fp16 has few bits of, and zeros of both signs.
Tensor values(std::int64_t rows, std::int64_t channels, at::ScalarType dtype) {
  Tensor x = tensor::empty({rows, channels}, at::kDouble);
  auto* out = x.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    out[i] = random_normal(3, 1, index) * std::exp2(random_bits(3, 2, index) % 40 - 24.0);
    if (i % 11 == 0) out[i] = i % 2 ? 0.0 : -0.0;
  }
  return x.to(dtype);
}

TEST(DropoutKernel, GivesTheBitsOfTheCpu) {
  const std::vector<std::int64_t> samples = {7, (std::int64_t{1} << 40) + 3, 5}, positions = {6, 7, 2, 3, 90};
  struct Range {
    std::int64_t first, rows;
  };
  int compared = 0;
  for (const std::int64_t channels : {1, 2, 7, 8, 15, 16, 63, 64, 65, 127, 128, 129, 1000})
    for (const Range range : {Range{0, 15}, {0, 1}, {4, 8}, {14, 1}})
      for (const std::int64_t dropped : {1, 6554, 32768, 65535})
        for (const Type& type : kTypes) {
          const Tensor x = values(range.rows, channels, type.dtype);
          const Mask mask{tensor::indices(samples), tensor::indices(positions), range.first,
                          /*first_channel=*/0,      0x0123456789ABCDEF,         dropped};
          ASSERT_TRUE(tensor::bit_equal(by_kernel(x, mask, type.element), dropout(x, mask)))
              << channels << " channels, rows " << range.first << " to " << range.first + range.rows << ", "
              << dropped << " dropped, " << c10::toString(type.dtype);
          ++compared;
        }
  EXPECT_EQ(compared, 13 * 4 * 4 * 4);
}

// More rows than a block has, more groups of channels than the grid has blocks.
TEST(DropoutKernel, GivesTheBitsOfTheCpuOverManyBlocks) {
  const std::vector<std::int64_t> samples = {1, 2, 3, 4}, positions = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Mask mask{tensor::indices(samples), tensor::indices(positions), 1, 0, 99, 20000};
  const Tensor x = values(37, 1400, at::kBFloat16);
  EXPECT_TRUE(tensor::bit_equal(by_kernel(x, mask, Element::bf16), dropout(x, mask)));
}

// Ranks that have a part of the channels each drop what one rank with all of them does.
TEST(DropoutKernel, GivesTheBitsOfAllChannelsToParts) {
  const std::vector<std::int64_t> samples = {7, 8}, positions = {6, 7, 2};
  const Mask mask{tensor::indices(samples), tensor::indices(positions), 1, 0, 99, 20000};
  const Tensor x = values(5, 300, at::kFloat), whole = dropout(x, mask);
  for (const std::int64_t first : {0, 1, 16, 100, 127, 128, 150, 299})
    for (const std::int64_t channels : {1, 50, 128, 150, 300}) {
      if (first + channels > 300) continue;
      Mask part = mask;
      part.first_channel = first;
      const Tensor x_part = x.narrow(1, first, channels).contiguous(),
                   expected = whole.narrow(1, first, channels).contiguous();
      EXPECT_TRUE(tensor::bit_equal(dropout(x_part, part), expected)) << first << " " << channels;
      EXPECT_TRUE(tensor::bit_equal(by_kernel(x_part, part, Element::fp32), expected))
          << first << " " << channels;
    }
}

TEST(DropoutKernel, WidensEveryNumberOf16BitsAsC10Does) {
  const auto are_equal = [](float a, float b) {
    return __float_as_uint(a) == __float_as_uint(b) || (std::isnan(a) && std::isnan(b));
  };
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    ASSERT_TRUE(are_equal(widened(Fp16{bits}), c10::Half(bits, c10::Half::from_bits()))) << i;
    ASSERT_TRUE(are_equal(widened(Bf16{bits}), c10::BFloat16(bits, c10::BFloat16::from_bits()))) << i;
  }
}

// At, between and halfway between neighbours of 16 bits, and a step to either side.
TEST(DropoutKernel, RoundsAsC10Does) {
  const auto expect_equal = [](float x) {
    Fp16 half;
    Bf16 brain;
    narrow(x, half);
    narrow(x, brain);
    ASSERT_EQ(half.bits, c10::Half(x).x) << x;
    ASSERT_EQ(brain.bits, c10::BFloat16(x).x) << x;
  };
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const std::uint32_t half = __float_as_uint(widened(Fp16{static_cast<std::uint16_t>(i)})), brain = i << 16;
    for (const std::uint32_t start : {half, brain})
      for (const std::uint32_t between : {0U, 0x1000U, 0x1777U, 0x8000U, 0xABCDU})
        for (const std::uint32_t step : {~0U, 0U, 1U}) expect_equal(__uint_as_float(start + between + step));
  }
  for (int exponent = -26; exponent <= -13; ++exponent)  // halfway between numbers of few bits
    for (std::uint32_t i = 0; i < 1024; ++i)
      for (const std::uint32_t step : {~0U, 0U, 1U})
        expect_equal(
            __uint_as_float(__float_as_uint(std::ldexp(1 + static_cast<float>(i) / 1024, exponent)) + step));
  expect_equal(std::numeric_limits<float>::infinity());
  expect_equal(std::numeric_limits<float>::quiet_NaN());
}

}  // namespace
}  // namespace tessera::parallel::kernels
