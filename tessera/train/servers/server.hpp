// What a server does: it serves one worker at a time, in an order that the first of the servers decides.
#pragma once

#include "tessera/collective/group.hpp"
#include "tessera/train/loop.hpp"
#include "tessera/train/servers/team.hpp"

namespace tessera::train {

// Until all workers have left or are lost; returns the summary of the run, which the first server tells.
Summary serve_workers(const spec::Run& run, const collective::Communicator& all, const Team& team,
                      const LoopOptions& options);

}  // namespace tessera::train
