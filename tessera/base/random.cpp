#include "tessera/base/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "tessera/base/error.hpp"

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

// A Feistel network over the smallest even number of bits that holds `size`, walked until it lands inside.
std::uint64_t permuted(std::uint64_t index, std::uint64_t size, std::uint64_t seed, std::uint64_t stream) {
  CHECK(index < size, "index ", index, " outside a permutation of ", size);
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
