// The fixed schedules. Each is a pure function from the pipeline's shape to the order in which its ranks
// compute.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/program/schedule/order.hpp"

namespace tessera::program {

// Ranks along the pipeline axis, model chunks per rank, micro-batches of a step, and what each stage costs.
struct Pipeline {
  std::uint32_t num_ranks = 1, num_virtual = 1;
  std::int32_t num_micro = 1;
  Costs costs;  // of num_ranks * num_virtual stages; the fixed schedules don't look at them
  std::uint32_t num_stages() const { return num_ranks * num_virtual; }
  bool operator==(const Pipeline&) const = default;
};

// Where stages lie: round and round the ranks; down the ranks and up again (two stages per rank).
std::vector<std::uint32_t> looped(std::uint32_t num_ranks, std::uint32_t num_virtual);
std::vector<std::uint32_t> vee(std::uint32_t num_ranks);

// The function of each line of schedules.def, which says what each is.
#define SCHEDULE(name, function, ...) Order function(const Pipeline& pipeline);
#include "tessera/program/schedule/schedules.def"
#undef SCHEDULE

}  // namespace tessera::program
