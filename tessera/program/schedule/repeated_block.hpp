// V schedules of controllable memory (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024): the
// way of one micro-batch through the stages of a V is laid out once, in slots of equal length, and repeated
// every six slots, which is what a rank computes for a micro-batch. How long a stage's activations live
// decides how many a rank holds. Then every half runs as soon as it can, and weight halves fill the gaps.
#pragma once

#include <cstdint>

#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {

// Slots from a rank to the next on each of the four ways of a micro-batch, and what is waited at the turns
// beside them.
struct VBlock {
  std::int64_t forward_down = 1, forward_up = 1, input_down = 1, input_up = 1;  // input_down: from rank 0 on
  std::int64_t before_inputs = 0, before_last_inputs = 0;
};

// CHECKs that no rank is given two halves at a time.
Order repeated_block(const Pipeline& pipeline, const VBlock& block);

}  // namespace tessera::program
