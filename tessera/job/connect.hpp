// How a rank that has met the others talks to them: over the transport that the run file names.
#pragma once

#include <memory>
#include <string>

#include "tessera/spec/spec.hpp"

namespace tessera {
class KeyStore;
class PeerConnector;
}  // namespace tessera
namespace tessera::collective {
class Communicator;
}

namespace tessera::job {

struct Seat {
  int rank = 0, size = 1;
  int local_rank = 0;            // among the ranks of this machine: which GPU
  std::string prefix = "job/0";  // of all keys: job and generation
};

// The store, which NCCL needs, and the connector, which sockets need, must outlive the communicator.
std::unique_ptr<collective::Communicator> connect(const spec::Run& run, KeyStore& keys, PeerConnector& peers,
                                                  const Seat& seat);

}  // namespace tessera::job
