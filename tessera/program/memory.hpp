// How much does a rank hold, and when? Replays the lifetimes of cells over the ops of a sequence.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/program/types.hpp"

namespace tessera::program {

struct Memory {
  using ByKind = std::array<std::int64_t, kNumCellKinds>;  // live bytes, indexed by CellKind
  std::vector<std::int64_t> during;                        // live and scratch bytes while each op runs
  ByKind at_peak = {};
  std::int64_t scratch_at_peak = 0;
  std::int64_t peak_bytes = 0;
  std::uint32_t peak_op = 0;   // the first op during which the peak is held
  std::int64_t end_bytes = 0;  // what stays: the durable cells
};

// Live bytes over the ops in issue order, durable cells of the buckets this sequence touches and the scratch
// of forwards included. A reduction of an unsharded bucket is in place: its ShardGrad is the WeightGrad's
// memory.
Memory replay_memory(const Sequence& sequence, const Tables& tables);

}  // namespace tessera::program
