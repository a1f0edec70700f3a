// Random choices as a function of the seed.
#pragma once

#include <cstdint>

#include "tessera/base/random.hpp"

namespace tessera::program {

// Numbers below a bound, one after the other.
class Dice {
 public:
  Dice(std::uint64_t seed, const char* name) : seed_(seed), stream_(stream_of(name)) {}
  std::uint32_t below(std::size_t bound) {
    return static_cast<std::uint32_t>(random_bits(seed_, stream_, count_++) % bound);
  }

 private:
  std::uint64_t seed_, stream_, count_ = 0;
};

}  // namespace tessera::program
