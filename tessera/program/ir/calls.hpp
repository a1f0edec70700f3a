// The calls that an op makes along axis sets, and how many bytes they move: what the counters of a run must
// equal, call by call.
#pragma once

#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// In the order of the calls, of a full micro-batch; a send is a shift. None along sets of one rank.
std::vector<Collective> calls_of(const Op& op, const Tables& tables);

// Whether it takes its turn in a rank's one queue of communication, on whichever lane it is: it moves values
// along an axis set, or calls others while it computes.
bool is_queued(const Op& op, const Tables& tables);

}  // namespace tessera::program
