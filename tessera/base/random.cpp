#include "tessera/base/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/instruction_set.hpp"

namespace tessera {

namespace {
constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

std::array<std::uint32_t, 4> block(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return philox({low(index), high(index), low(stream), high(stream)}, {low(seed), high(seed)});
}

double unit(std::uint32_t a, std::uint32_t b) {
  return static_cast<double>(((std::uint64_t{a} << 32) | b) >> 11) * 0x1p-53;
}
}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(p1) ^ counter[1] ^ key[0], low(p1), high(p0) ^ counter[3] ^ key[1], low(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto b = block(seed, stream, index);
  return (std::uint64_t{b[0]} << 32) | b[1];
}

double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto b = block(seed, stream, index);
  return unit(b[0], b[1]);
}

// One block gives a pair of normals; element 2k takes the cosine, 2k+1 the sine.
double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto b = block(seed, stream, index / 2);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(b[0], b[1])));
  const double angle = 2.0 * std::numbers::pi * unit(b[2], b[3]);
  return radius * (index % 2 ? std::sin(angle) : std::cos(angle));
}

void random_normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::span<double> out) {
  std::size_t i = 0;
  if (first % 2 && !out.empty()) out[i++] = random_normal(seed, stream, first);
  for (; i + 1 < out.size(); i += 2) {
    const auto b = block(seed, stream, (first + i) / 2);
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(b[0], b[1])));
    const double angle = 2.0 * std::numbers::pi * unit(b[2], b[3]);
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
  }
  if (i < out.size()) out[i] = random_normal(seed, stream, first + i);
}

namespace {
constexpr std::size_t kLanes = 16, kHalves = 8 * kLanes;

using Counter = std::array<std::uint32_t, 3>;

// Sixteen blocks side by side: the loop over lanes becomes vector instructions.
[[gnu::always_inline]] inline void halves_of(std::uint32_t first, const Counter& counter, std::uint64_t key,
                                             std::uint16_t* __restrict out) {
  std::uint32_t words[4 * kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) {
    std::uint32_t c0 = first + static_cast<std::uint32_t>(i), c1 = counter[0], c2 = counter[1],
                  c3 = counter[2], k0 = low(key), k1 = high(key);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0, p1 = std::uint64_t{0xCD9E8D57} * c2;
      c0 = high(p1) ^ c1 ^ k0;
      c1 = low(p1);
      c2 = high(p0) ^ c3 ^ k1;
      c3 = low(p0);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    words[i] = c0;
    words[kLanes + i] = c1;
    words[2 * kLanes + i] = c2;
    words[3 * kLanes + i] = c3;
  }
  for (std::size_t i = 0; i < 4 * kLanes; ++i) {
    out[i] = static_cast<std::uint16_t>(words[i]);
    out[4 * kLanes + i] = static_cast<std::uint16_t>(words[i] >> 16);
  }
}

void halves_plain(std::uint32_t first, const Counter& counter, std::uint64_t key, std::uint16_t* out) {
  halves_of(first, counter, key, out);
}

#if defined(__x86_64__)
[[gnu::target("avx512f"), gnu::optimize("O3")]] void halves_512(std::uint32_t first, const Counter& counter,
                                                                std::uint64_t key, std::uint16_t* out) {
  halves_of(first, counter, key, out);
}
[[gnu::target("avx2"), gnu::optimize("O3")]] void halves_256(std::uint32_t first, const Counter& counter,
                                                             std::uint64_t key, std::uint16_t* out) {
  halves_of(first, counter, key, out);
}
const auto many_halves = for_this_cpu(halves_512, halves_256, halves_plain);
#else
const auto many_halves = halves_plain;
#endif
}  // namespace

void random_halves(std::uint64_t key, std::array<std::uint32_t, 3> counter, std::span<std::uint16_t> out) {
  std::size_t done = 0;
  std::uint32_t block = 0;
  for (; done + kHalves <= out.size(); done += kHalves, block += kLanes)
    many_halves(block, counter, key, out.data() + done);
  if (done == out.size()) return;
  std::array<std::uint16_t, kHalves> rest;
  many_halves(block, counter, key, rest.data());
  std::copy_n(rest.begin(), out.size() - done, out.begin() + static_cast<std::ptrdiff_t>(done));
}

// A Feistel network over the smallest even number of bits that holds `size`, walked until it lands inside.
std::uint64_t permuted(std::uint64_t index, std::uint64_t size, std::uint64_t seed, std::uint64_t stream) {
  TESSERA_CHECK(index < size, "index ", index, " outside a permutation of ", size);
  const auto half =
      std::max<std::uint64_t>(1, (static_cast<std::uint64_t>(std::bit_width(size - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = index >> half, right = index & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const auto mixed = random_bits(seed, stream ^ (round << 56), right) & mask;
      left = std::exchange(right, left ^ mixed);
    }
    index = (left << half) | right;
  } while (index >= size);
  return index;
}

}  // namespace tessera
