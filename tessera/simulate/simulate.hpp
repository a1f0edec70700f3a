// Predicts when each op runs. The walk of a program with a clock: one step, from rest, one rank for each
// class of equals.
#pragma once

#include "tessera/simulate/costs.hpp"
#include "tessera/simulate/timeline.hpp"

namespace tessera::simulate {

// Note [What is simulated]
// - Ops of a lane run in issue order, one after the other; lanes run beside each other; an op starts when its
// lane is
//   free and its waits of this step have ended. Waits on the step before are void.
// - Of a program whose steps overlap, four are simulated one after the other, waits on the step before and
// all; what is told is the third, from when its first op computes, and the makespan is the time from there to
// the same moment of the fourth.
// - A send and its receive are one transfer: it starts when both could, and both end with it. So do the
// members of a
//   group op. The longest cost among the members is that of all.
// - An op passes through the phases of its cost. A phase without axes takes its seconds. A phase that holds a
// link takes
//   them at full speed while it is alone there.
// - Every rank has one link out and one link in for each set of mesh axes; axis sets over the same axes share
// them. A
//   transfer holds the sender's link out and the receiver's link in; any other op both links of each member.
// - Users of a link share it evenly; who holds several links goes as fast as the most crowded one allows.
// What it leaves
//   unused on its other links is given to nobody.
// - With one queue an op that communicates starts when the one before it in its rank's order of issue has
// ended, and an
//   op that computes and calls others meanwhile keeps its turn until its end: no device is slower than that.
// - Not modelled: other jobs, switches beyond a rank's own links, the host's time to issue, Cost::host_waits,
// memory.

enum class Queues {
  one_per_lane,   // lanes communicate beside each other
  one_per_device  // what NCCL may come to at the worst: a rank's communication keeps its order of issue
};

// The program must have passed program::check; throws Bug if it gets stuck.
Timeline simulate(const program::Program& program, const OpCosts& costs,
                  Queues queues = Queues::one_per_lane);

}  // namespace tessera::simulate
