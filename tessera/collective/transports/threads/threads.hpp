// Runs ranks as threads of one process that meet at barriers. Sums are made in rank order, so a run is
// reproducible bit by bit.
#pragma once

#include <functional>

#include "tessera/collective/transport.hpp"

namespace tessera::collective {

// Runs `body` as `num_ranks` ranks, each a thread with one compute thread and one account of memory of its
// own, and waits for all. A rank that throws or returns ends its peers' waits on it with PeerLost; the first
// error thrown is rethrown here. A wait has no time limit: a rank of this process can be late, but not lost
// unseen. Throws UserError when the system has no room for so many threads; then `body` has not been called.
void run_ranks(int num_ranks, const std::function<void(const Communicator&)>& body);

// Anything that runs ranks of one process so.
using RunRanks = std::function<void(int num_ranks, const std::function<void(const Communicator&)>& body)>;

Transport threads_transport();

}  // namespace tessera::collective
