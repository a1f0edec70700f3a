// What does Ctrl-C do in a process that trains by itself? The first asks for the end of the run after this step, the
// second ends the process.
#pragma once

#include "tessera/base/activity.hpp"

namespace tessera::launch {

// SIGINT and SIGTERM, while it lives; one at a time in a process.
class StopOnSignals {
 public:
  explicit StopOnSignals(StopWord& word);
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

  // 128 + the signal that came, or 0.
  int exit_code() const;
};

}  // namespace tessera::launch
