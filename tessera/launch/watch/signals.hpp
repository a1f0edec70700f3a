// How the signals of a process become a request to stop: the first asks for the end of the run after this
// step, a later one ends the job.
#pragma once

#include <signal.h>

#include <atomic>
#include <thread>

#include "tessera/base/process/stop_request.hpp"

namespace tessera::launch {

// SIGINT, SIGTERM, SIGUSR1, and SIGHUP unless it was ignored when the process was started (nohup).
sigset_t stop_signals();

struct StopOptions {
  double grace_seconds = 0;  // after the first signal the process ends itself; 0: its launcher sees to that
  bool tells = true;         // answers the first signal on standard error
};

// Takes the stop signals on a thread of its own while it lives. Made before all other threads of the process,
// which must leave these signals to it: they inherit its mask.
class StopOnSignals {
 public:
  StopOnSignals(StopRequest& request, const StopOptions& options);
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

 private:
  void listen();
  void take(int signal);

  StopRequest& request_;
  const StopOptions options_;
  const sigset_t signals_;
  sigset_t before_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace tessera::launch
