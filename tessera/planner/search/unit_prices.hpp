// The prices of each unit of a model on one rank, in seconds and bytes, by the tables and rates of the
// simulator.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/program/ir/tables.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::planner {

// Seconds of a unit (embedding, block or head) on one rank: of a micro-batch, and of a step.
struct UnitSeconds {
  double forward = 0, again = 0, input = 0, weight = 0;  // again: what is recomputed
  double exchange_forward = 0, exchange_backward = 0;    // collectives that are ops of their own
  double gather = 0, reduce = 0, reduce_shared = 0;      // of its buckets
  double gather_again = 0;                               // of those that its backward reads
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
