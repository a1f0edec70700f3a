// How does a rank that has a key store reach the others? Over the transport that the run file names.
#pragma once

#include <memory>
#include <string>

#include "tessera/spec/spec.hpp"

namespace tessera {
class KeyStore;
}
namespace tessera::collective {
class Communicator;
}

namespace tessera::cli {

struct Seat {
  int rank = 0, size = 1;
  int local_rank = 0;                 // among the ranks of this machine: which GPU
  std::string prefix = "job/0";       // of all keys: job and generation
  std::string address = "127.0.0.1";  // gloo: the interface to listen on
};

// The store must outlive the communicator.
std::unique_ptr<collective::Communicator> connect(const spec::Run& run, KeyStore& keys, const Seat& seat);

}  // namespace tessera::cli
