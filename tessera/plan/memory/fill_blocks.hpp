// Chooses an option for each block of a rank within a number of bytes: the dynamic program of Note
// [Recomputation within a budget].
#pragma once

#include <optional>
#include <span>

#include "tessera/plan/memory/budget.hpp"

namespace tessera::plan {

struct BlocksToFill {
  std::span<const Option> options;
  std::size_t num_blocks = 0;
  double in_flight = 1;  // micro-batches whose tapes are held at a time
  double bytes = 0;
};

// The options that take the least seconds, first block first; none: nothing fits.
std::optional<std::vector<std::size_t>> fill_blocks(const BlocksToFill& blocks);

}  // namespace tessera::plan
