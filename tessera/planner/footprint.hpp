// The closed form of what the fullest rank of a workload holds, for layouts that no program is compiled of.
#pragma once

#include "tessera/planner/workload.hpp"

namespace tessera::planner {

struct Footprint {
  double state = 0;        // parameters, gradients, optimizer
  double activations = 0;  // of the micro-batches under way
  double logits = 0;
  double peak = 0;  // bytes of the fullest stage, what libraries take not counted
  double stage = 0;
  bool operator==(const Footprint&) const = default;
};

// Note [The closed form of memory]
// Per block and token, in bytes of 16 bits: 10 of the residual stream (8 without dropout, 20 more where norms
// keep fp32 copies), what the branches keep divided by tp, and the scores, 5 for each head and position,
// unless attention is a flash kernel. A stage holds as many micro-batches as its schedule has under way.
// Logits take 14 bytes an entry: 16-bit ones, their fp32 copy, probabilities and gradient.
Footprint footprint(const Workload& work);

// What no recomputation or schedule brings down: parameters, gradients and optimizer of an even share.
double least_bytes(const Workload& work);

}  // namespace tessera::planner
