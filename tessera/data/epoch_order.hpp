// The order in which the samples of a source are read: a function of the seed and the index alone, and
// another one in every epoch. Nothing is shuffled in memory.
#pragma once

#include <cstdint>

#include "tessera/base/random.hpp"

namespace tessera::data {

// What permutations of this epoch of the source of this number are drawn from.
inline std::uint64_t epoch_stream(std::uint64_t epoch, std::uint64_t source) {
  return epoch + (source << 32);
}

// Which of `size` samples is the one with this index, counted through all epochs, in the source of this
// number.
inline std::uint64_t sample_in_epoch(std::uint64_t index, std::uint64_t size, std::uint64_t seed,
                                     std::uint64_t source) {
  return permuted(index % size, size, seed, epoch_stream(index / size, source));
}

}  // namespace tessera::data
