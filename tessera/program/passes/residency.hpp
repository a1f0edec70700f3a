// The pass that says when a bucket is gathered, reduced and freed, which is ZeRO 0-3 and hybrid shard: they
// differ in these ops and in nothing else.
#pragma once

#include <cstdint>

#include "tessera/program/passes/draft.hpp"

namespace tessera::program {

struct Residency {
  bool overlap = true;  // gathers and reductions on lanes of their own; false: on the compute lane
  bool keeps_full =
      true;  // Full stays from its first use in a step to its last; false: only while it is used
  // With keeps_full = false: bytes of Full that may be kept for a later use (that of the farthest use goes
  // first), and how many are gathered before the op that needs them is the next.
  std::int64_t keep_bytes = 0;
  std::uint32_t prefetch = 1;
  // A gradient begins when the reductions of earlier ones are through, so that they don't pile up.
  bool holds_back = true;
  std::int32_t reduce_every = 0;  // micro-batches between reductions of a sharded bucket; 0: one a step
};

// Adds gathers, reductions and frees to a draft of computations, transfers, sums and steps. What a delayed
// bucket computes with is there when a step begins; it is gathered for the next one as soon as this one is
// through with it.
void add_residency(Draft& draft, const Tables& tables, const Residency& residency);

}  // namespace tessera::program
