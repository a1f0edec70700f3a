// Derives the waits of a sequence from the effects of its ops.
#pragma once

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// An op that waits for an earlier one although they share no cell; with kPreviousStep for any one of the step
// before.
struct ExtraWait {
  std::uint32_t op = 0, earlier = 0;
};

// Replaces all waits by the smallest set that orders every two ops touching one cell, where one of them
// writes, as they are issued, and the extra ones (in rising order of `op`); lane order gives the rest.
// Includes waits on the step before.
void build_waits(Sequence& sequence, const Tables& tables, std::span<const ExtraWait> extra = {});

}  // namespace tessera::program
