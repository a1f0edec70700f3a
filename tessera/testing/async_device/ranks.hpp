// Runs ranks as threads with an asynchronous device each. Between them a backend with NCCL's rules: an
// operation is issued on a stream of its communicator and done in the order of issue, tags are ignored, and a
// send is over when it is received.
#pragma once

#include <map>
#include <string>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/testing/async_device/witness.hpp"

namespace tessera::async_device {

struct RankOptions {
  Pace pace;
  bool one_queue = false;  // all communicators of a device share a stream, as NCCL's may at the worst
  Omission omission;
  double patience_seconds = 60;  // when no stream of any device has done anything for so long, they are stuck
};

// What the devices of one run were seen to do.
struct Findings {
  std::map<std::string, std::int64_t> problems;
  std::vector<Counts> counts;    // by rank
  std::int64_t num_omitted = 0;  // of what RankOptions::omission names
};

// As collective::run_ranks. Throws Bug if the witness has seen a problem, DeviceFailed if the ranks were
// stuck. `found` may be null.
void run_ranks(const RankOptions& options, int num_ranks,
               const std::function<void(const collective::Communicator&)>& body, Findings* found = nullptr);

}  // namespace tessera::async_device
