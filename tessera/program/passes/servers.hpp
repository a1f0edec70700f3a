// The pass that gives servers what is theirs of a rank's ops.
#pragma once

#include "tessera/program/passes/draft.hpp"

namespace tessera::program {

// Note [Servers]
// Along an axis with servers the last ranks compute nothing: each holds a slice of the shards and of the
// optimizer's state that the ranks before it, the workers, would hold. A worker pulls the whole of a bucket
// from them (gather) and pushes its gradient to them in slices (reduce); a server adds up the workers' slices
// in the order of their ranks and updates its own. Workers and servers are classes of ranks of one program:
// both have its gathers, reductions and sums in the same order, marked with the side that they are on.
//
// Where workers do not wait for each other, the program is that of one worker with all servers, and a server
// carries it out once for each worker, in turns: before it gives weights, before it takes gradients, and
// before it updates. Its ops are on one lane, so that a turn holds up all of them.

// Of a draft of a rank that would do all, what a server does; the draft keeps what a worker does.
Draft part_servers(Draft& draft, bool takes_turns);

}  // namespace tessera::program
