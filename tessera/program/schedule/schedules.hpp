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

// All forwards, then all backwards. One stage per rank.
Order gpipe(const Pipeline& pipeline);
// A backward as soon as there is one; rank r holds at most num_ranks - r activations. One stage per rank.
Order one_forward_one_backward(const Pipeline& pipeline);
// 1f1b over several looped stages per rank: a start num_virtual times shorter for more activations and
// transfers.
Order interleaved(const Pipeline& pipeline);
// All micro-batches through a looped stage before the next stage: as interleaved in time, all activations
// held; each stage's weights are needed in two runs only.
Order breadth_first(const Pipeline& pipeline);
// 1f1b with split backwards: weight halves fill the end; every rank holds as many activations as the first
// one of 1f1b.
Order zero_bubble_h1(const Pipeline& pipeline);
// Two stages per rank, down and up: only the start of the pipeline is idle when forward, input and weight
// take equally long; holds 2 * num_ranks stage activations (num_ranks micro-batches).
Order zero_bubble_v(const Pipeline& pipeline);
// The V with a forward and a whole backward side by side in the middle, so that one can hide the other's
// communication; holds one activation more. Needs num_micro >= 2 * num_ranks.
Order dualpipe_v(const Pipeline& pipeline);

}  // namespace tessera::program
