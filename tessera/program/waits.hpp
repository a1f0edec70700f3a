// Who must wait for whom? Derives the waits of a sequence from the effects of its ops.
#pragma once

#include "tessera/program/types.hpp"

namespace tessera::program {

// Replaces all waits by the smallest set that orders every two ops touching one cell, where one of them
// writes, as they are issued; lane order gives the rest. Includes waits on the step before.
void build_waits(Sequence& sequence, const Tables& tables);

}  // namespace tessera::program
