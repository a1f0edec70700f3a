// Orders built by a walk in which every rank takes the best task at hand.
#pragma once

#include <optional>

#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {

// How a free rank chooses.
struct Policy {
  bool forward_first = false;    // when a forward and a backward are both ready
  bool late_stage_first = true;  // among forwards: finish micro-batches before new ones begin
  double patience = 1;  // wait for a value that comes within so many weight halves, rather than begin one
  std::int64_t most_held = 1;      // activations on the last rank
  std::int64_t more_per_rank = 0;  // and so many more on each rank before it
};

// An order of split backwards on this placement. Holds no more than the policy says, nor than `limit`;
// nothing if a rank couldn't hold one micro-batch.
std::optional<Order> greedy(const Pipeline& pipeline, const std::vector<std::uint32_t>& rank_of_stage,
                            std::int64_t limit, const Policy& policy);

// The same forwards and backwards on each rank, their weight halves put where the rank would wait, or must
// make room. Nothing if that takes more than `limit`.
std::optional<Order> with_weights_in_gaps(const Pipeline& pipeline, const Order& order, std::int64_t limit,
                                          double patience);

}  // namespace tessera::program
