// Orders that hold little because every micro-batch does the same, one beat after the other: a micro-batch's
// way through the stages is drawn once and repeated.
#pragma once

#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {

// How much longer than it must be: the way of values from stage to stage, the way back of gradients, and the
// time between two micro-batches (1: that of the busiest rank's work). A faster way holds less, and is
// crossed by others more often.
struct Rhythm {
  double forward = 1, input = 1, beat = 1;
};

// Forwards and input halves only, by their time in such a repetition: weight halves are for
// with_weights_in_gaps.
Order periodic(const Pipeline& pipeline, const std::vector<std::uint32_t>& rank_of_stage,
               const Rhythm& rhythm);

}  // namespace tessera::program
