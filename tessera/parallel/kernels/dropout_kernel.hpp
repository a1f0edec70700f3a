// The kernel of counter-based dropout, in the words of CUDA: for nvcc, or for any compiler after
// parallel/testing/cuda_shim.hpp. Makes the bits of the CPU's; only those of what is not a number (infinity
// times zero) are a GPU's own.
#pragma once

#include <cstdint>

#include "tessera/parallel/kernels/launch.hpp"

namespace tessera::parallel::kernels {

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

// Values in the type that they are multiplied in. Rounded to nearest, ties to even, as c10 does: whole
// numbers, so that no compiler and no instruction set rounds in its own way.
__device__ inline float widened(float x) { return x; }
__device__ inline double widened(double x) { return x; }
__device__ inline float widened(Bf16 x) { return __uint_as_float(std::uint32_t{x.bits} << 16); }
__device__ inline float widened(Fp16 x) {
  const std::uint32_t sign = (x.bits & 0x8000U) << 16, rest = x.bits & 0x7FFFU;
  if (rest >= 0x7C00) return __uint_as_float(sign | 0x7F800000 | rest << 13);
  if (rest >= 0x0400) return __uint_as_float(sign | ((rest << 13) + 0x38000000));
  const float magnitude = static_cast<float>(rest) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

__device__ inline void narrow(float x, float& out) { out = x; }
__device__ inline void narrow(double x, double& out) { out = x; }
__device__ inline void narrow(float x, Bf16& out) {
  const std::uint32_t bits = __float_as_uint(x);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  out.bits = static_cast<std::uint16_t>(is_nan ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
__device__ inline void narrow(float x, Fp16& out) {
  const std::uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  std::uint32_t rest;
  if (magnitude > 0x7F800000)
    rest = 0x7E00;
  else if (magnitude >= 0x47800000)  // 2^16
    rest = 0x7C00;
  else if (magnitude >= 0x38800000)  // 2^-14: below, steps are those of numbers next to 1/2
    rest = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  else
    rest = __float_as_uint(__uint_as_float(magnitude) + 0.5F) - 0x3F000000;
  out.bits = static_cast<std::uint16_t>(sign | rest);
}

struct Words {
  std::uint32_t word[4];
};

// tessera::philox of base/random.hpp.
__device__ inline Words philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3,
                               std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0, p1 = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

// Sixteen threads read and write sixteen neighbours at a time, eight times for each block of Philox: what
// random_halves says of element 128 g + 64 h + 16 w + i.
template <typename T, typename Wide>
__global__ void dropout_kernel(const DropoutLaunch launch, const Wide scale) {
  const std::uint32_t lane = threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= launch.rows) return;
  const std::uint32_t counted = launch.first + row;
  const auto sample = static_cast<std::uint64_t>(launch.samples[counted / launch.positions_per_sample]);
  const auto position = static_cast<std::uint32_t>(launch.positions[counted % launch.positions_per_sample]);
  const std::uint64_t begin = std::uint64_t{row} * launch.channels;
  const T* __restrict__ x = static_cast<const T*>(launch.x) + begin;
  T* __restrict__ out = static_cast<T*>(launch.out) + begin;
  // Groups are counted over all channels, of which x has those from the first on.
  const std::uint32_t end = launch.first_channel + launch.channels;
  for (std::uint32_t group = launch.first_channel / kChannelsOfGroup + blockIdx.y;
       kChannelsOfGroup * group < end; group += gridDim.y) {
    const std::uint32_t channel = kChannelsOfGroup * group + lane;
    const auto is_here = [&](std::uint32_t e) {
      return channel + kLanes * e >= launch.first_channel && channel + kLanes * e < end;
    };
    const auto place = [&](std::uint32_t e) { return channel + kLanes * e - launch.first_channel; };
    T value[8] = {};  // all asked for first: they come while the random numbers are made
    for (std::uint32_t e = 0; e < 8; ++e)
      if (is_here(e)) value[e] = x[place(e)];
    const Words random = philox(kLanes * group + lane, position, static_cast<std::uint32_t>(sample),
                                static_cast<std::uint32_t>(sample >> 32), launch.key);
    for (std::uint32_t e = 0; e < 8; ++e) {
      const std::uint32_t bits = random.word[e % 4] >> 16 * (e / 4) & 0xFFFF;
      if (is_here(e)) narrow(widened(value[e]) * (bits >= launch.dropped ? scale : Wide{0}), out[place(e)]);
    }
  }
}

}  // namespace tessera::parallel::kernels
