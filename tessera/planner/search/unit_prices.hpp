// The prices of each unit of a model on one rank, in seconds and bytes, by the tables and rates of the
// simulator.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "tessera/program/ir/tables.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::planner {

// Seconds in which the buckets of one lane are gathered and reduced. Dense weights and those of experts may
// be shared by different ranks, and are on different lanes then. Buckets beyond kLanes lanes, and those of
// several units, are left out.
struct Traffic {
  double gather = 0, reduce = 0, reduce_shared = 0;
  double gather_again = 0;  // of those that the unit's backward reads
};
inline constexpr std::size_t kLanes = 3;

// Seconds of a unit (embedding, block or head) on one rank: of a micro-batch, and of a step.
struct UnitSeconds {
  double forward = 0, again = 0, input = 0, weight = 0;  // again: what is recomputed
  double exchange_forward = 0, exchange_backward = 0;    // collectives that are ops of their own
  std::array<Traffic, kLanes> traffic;                   // of its buckets
  double step = 0, carry = 0;                            // of the optimizer; to host memory and back
  double even = 0;                                       // by which units are dealt to stages
};

// Bytes of a unit on one rank: throughout, of a micro-batch from its forward to its backward, of one from the
// input half of its backward to the weight half, and in addition while it runs; `gathered`: its weights and
// gradients while they are whole.
struct UnitBytes {
  double durable = 0, kept = 0, waiting = 0, running = 0, gathered = 0;
};

std::vector<UnitSeconds> unit_seconds(const program::Tables& tables, const simulate::Rates& rates);
std::vector<UnitBytes> unit_bytes(const program::Tables& tables, const spec::Layout& layout);

// The run with one block of each kind; `unit_like`: for each unit of the run the one of these that it is
// like.
spec::Run with_one_of_each_kind(const spec::Run& run, std::vector<std::size_t>& unit_like);

}  // namespace tessera::planner
