// Trains with servers whose workers do not wait for each other (layout.updates): the loops of a worker and of
// a server.
#pragma once

#include "tessera/train/loop.hpp"

namespace tessera::train {

// As train() does for all other runs. A worker that is lost is missed by nobody; a server that is lost ends
// the run. The summary is that of the first server, which says so in it.
Summary train_with_servers(const spec::Run& run, const collective::Communicator& communicator,
                           const LoopOptions& options);

}  // namespace tessera::train
