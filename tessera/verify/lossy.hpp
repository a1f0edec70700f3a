// What a layout whose traffic loses bits comes to, computed on one device: the same rounding, written out.
#pragma once

#include "tessera/verify/outcome.hpp"

namespace tessera::train {

// Whether gradients or weights are rounded on their way, so that one device alone comes to something else.
// What thin matrices make of a gradient depends on its sum only, and one device does it too.
bool rounds_traffic(const spec::Layout& layout);

// The outcome of such a layout: each data-parallel rank's gradients are those of a session of one device on
// the rank's samples; sums, rounding, clipping and the optimizer are written out. Throws UserError for
// layouts that split more than samples and stages.
Outcome lossy_outcome(const spec::Run& run, const spec::Run& alone, const Source& source, int num_steps);

}  // namespace tessera::train
