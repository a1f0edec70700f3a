// A transport: how ranks that have met through the launcher connect to each other, and whether that works on
// this machine.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tessera/collective/group.hpp"

namespace tessera {
class KeyStore;
class PeerConnector;
}  // namespace tessera

namespace tessera::collective {

// Where a rank sits in its job.
struct Seat {
  int rank = 0, size = 1;
  int local_rank = 0;                        // among the ranks of this machine: which GPU
  std::string prefix = "job/0";              // of all keys and names of connections: job and generation
  std::chrono::milliseconds timeout{60000};  // of one operation, and of connecting
};

// What ranks meet through. Both outlive the communicator.
struct Meeting {
  KeyStore& keys;
  PeerConnector& peers;
};

struct Trial {
  enum class Result {
    works,
    absent,    // not in this build
    unusable,  // nothing here that it could use
    broken
  };
  Result result = Result::works;
  std::string found, advice;
};

struct Transport {
  bool is_built = true;
  // This rank among its peers; null where the ranks are threads (run_ranks). Throws UserError for what the
  // build or the machine lacks.
  std::unique_ptr<Communicator> (*connect)(const Meeting& meeting, const Seat& seat) = nullptr;
  // Takes no more than a few seconds.
  Trial (*try_out)() = nullptr;
};

// Ranks 0 and 1 add 1 and 2; for try_out.
double sum_of_two(const Communicator& communicator);
// What two ranks have found the sum to be, since `begin` (now_seconds). An empty failure: there was none.
Trial judge_sum(double sum, const std::string& failure, double begin, const std::string& advice);

}  // namespace tessera::collective
