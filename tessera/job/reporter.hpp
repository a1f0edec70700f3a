// One joined rank's end of the watch: it reports what it does, and ends when the job is over.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "tessera/base/process/activity.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/launch/store/join_store.hpp"

namespace tessera::job {

// Writes to a standard error that may take nothing: then nobody is told, and the end does not wait for it.
void tell(const std::string& message);

// Ends this rank when the job is over for it: operations that wait for peers are broken off, and if that
// doesn't end the process soon, it is ended.
class Abort {
 public:
  Abort(const collective::Communicator& communicator, const ActivityLog& log)
      : communicator_(communicator), log_(log) {}

  bool is_due() const { return since_seconds_ > 0; }
  void begin();
  void end_if_stuck() const;

 private:
  const collective::Communicator& communicator_;
  const ActivityLog& log_;
  std::atomic<double> since_seconds_ = 0;
};

class Reporter {
 public:
  Reporter(launch::KeyClient& reports, const ActivityLog& log, Abort& abort,
           std::chrono::milliseconds timeout)
      : reports_(reports), log_(log), abort_(abort), timeout_(timeout) {}

  // Thread edge: of main while it makes the heartbeat, of the heartbeat, or of main once that has failed.
  void report();
  bool is_server_gone() const { return is_server_gone_; }

 private:
  launch::KeyClient& reports_;
  const ActivityLog& log_;
  Abort& abort_;
  std::chrono::milliseconds timeout_;
  std::atomic<bool> is_server_gone_ = false;
};

}  // namespace tessera::job
