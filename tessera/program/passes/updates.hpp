// The pass that says when the optimizer changes each bucket.
#pragma once

#include "tessera/program/passes/draft.hpp"

namespace tessera::program {

// Note [Steps that overlap]
// A program is the body of a loop. If its steps overlap, an op of the next step begins as soon as its own
// waits are met, even while ops of this step are running; never more than two steps are in progress.
// Optimizer steps then have a lane of their own, so that a forward waits only for the buckets that it reads,
// and sums of numbers have channels of their own, so that nothing else queues behind them.
// - With clipping, all optimizer steps wait for the norm of all gradients, so nothing of the next step that
//   reads weights begins before the last reduction has ended. What the next step needs first is updated
//   first.
// - Without clipping, each optimizer step follows the last reduction of its bucket, and the norm is added up
//   behind them.

// Lets the steps of the program overlap that is made of these tables, with channels for the sums of its
// numbers.
void overlap_steps(Tables& tables, bool updates_wait);

// Adds the optimizer steps to a draft with reductions: at its end on the compute lane, or as the note says.
void add_updates(Draft& draft, const Tables& tables);

}  // namespace tessera::program
