// How a rank that has met the others talks to them: over the transport that the run file names.
#pragma once

#include "tessera/collective/transport.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::job {

// The seat's timeout follows from the run.
std::unique_ptr<collective::Communicator> connect(const spec::Run& run, const collective::Meeting& meeting,
                                                  collective::Seat seat);

}  // namespace tessera::job
