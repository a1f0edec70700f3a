// The pass that keeps buckets and values outside of a rank's memory between their uses: it adds offload and
// fetch ops on the copy lane, one bucket or value ahead of its use.
#pragma once

#include "tessera/program/passes/draft.hpp"

namespace tessera::program {

struct Offload {
  bool optimizer = false;   // State, and with it nothing but the step of its bucket
  bool parameters = false;  // Shard: there for its gather and for its step
  bool values =
      false;  // values that only recomputed segments read: from their last forward to their recomputation
  bool any() const { return optimizer || parameters || values; }
};

// To be run after add_residency.
void add_offload(Draft& draft, const Tables& tables, const Offload& offload);

}  // namespace tessera::program
