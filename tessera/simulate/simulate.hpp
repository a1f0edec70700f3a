// Predicts when each op runs, by walking the program with a clock: one step that starts idle, one rank for
// each class of equal ranks.
#pragma once

#include "tessera/simulate/costs.hpp"
#include "tessera/simulate/timeline.hpp"

namespace tessera::simulate {

// Note [What is simulated]
// - Ops of a lane run sequentially, in issue order; lanes run concurrently. An op starts when its lane is
//   free and its waits of this step have ended. Waits on the step before are void.
// - If the steps of a program overlap, four are simulated in sequence, and waits on the step before count.
//   The result is the third step, from when its first op computes; the makespan is the time from there to the
//   same moment of the fourth.
// - A send and its receive are one transfer: it starts when both could, and both end with it. So do the
//   members of a group op. The longest cost among the members is the cost of all.
// - An op passes through the phases of its cost. A phase without axes takes its seconds. A phase that holds a
//   link takes its seconds at full speed while it is alone there.
// - Every rank has one link out and one link in for each set of mesh axes; axis sets over the same axes share
//   them. A transfer holds the sender's link out and the receiver's link in; any other op holds both links of
//   each member.
// - Users of a link share it evenly. An op that holds several links is as fast as the most crowded one
//   allows; what it leaves unused on its other links is given to nobody.
// - With one queue, an op that communicates starts when the one before it in its rank's order of issue has
//   ended, and an op that computes and communicates meanwhile keeps its turn until its end: no device is
//   slower than that.
// - Not modelled: other jobs, switches beyond a rank's own links, the host's time to issue, Cost::host_waits,
//   memory.

enum class Queues {
  one_per_lane,   // lanes communicate beside each other
  one_per_device  // what NCCL may come to at the worst: a rank's communication keeps its order of issue
};

// The program must have passed program::check; throws Bug if it gets stuck.
Timeline simulate(const program::Program& program, const OpCosts& costs,
                  Queues queues = Queues::one_per_lane);

}  // namespace tessera::simulate
