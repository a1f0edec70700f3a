// Random numbers without state: f(seed, stream, index), the same on every layout. Philox 4x32 with ten rounds
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera {

// The bare block function: 128 bits of counter and 64 of key to 128 random bits.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// A stream number from a name (FNV-1a), so that each parameter has its own sequence.
std::uint64_t stream_of(std::string_view name);

// Element `index` of the stream: 64 random bits; uniform in [0,1); standard normal (Box-Muller).
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);
double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);
double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);
// Elements first, first + 1, ... of random_normal, at half the price.
void random_normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::span<double> out);

// Sixteen random bits per element, vectorised. Element 128 g + 64 h + 16 w + i is half h (0: the low one) of
// word w of philox({16 g + i, counter}, key).
void random_halves(std::uint64_t key, std::array<std::uint32_t, 3> counter, std::span<std::uint16_t> out);

// A keyed bijection of [0, size): where index goes in epoch-like shuffles that are never stored.
std::uint64_t permuted(std::uint64_t index, std::uint64_t size, std::uint64_t seed, std::uint64_t stream);

}  // namespace tessera
