// A rank of a job: what it is given, and how it is stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tessera {
class ActivityLog;
class RestartLog;
class StopRequest;
}  // namespace tessera
namespace tessera::collective {
class Communicator;
struct Attendance;
}  // namespace tessera::collective

namespace tessera::job {

// Whether our own launcher started this process as a rank (`tessera train --procs`).
bool started_by_launcher();

// What each rank of a job is given.
struct Rank {
  const collective::Communicator& communicator;
  ActivityLog* log = nullptr;   // where it writes what it is doing
  StopRequest* stop = nullptr;  // checked between steps
  // What earlier starts of this job's ranks have left; null if nobody starts them again.
  RestartLog* restarts = nullptr;
  // Set if the others may continue without this rank.
  const collective::Attendance* attendance = nullptr;
  // For each rank that this process can see.
  std::function<std::vector<std::int64_t>()> resident_bytes, peak_bytes;
};

// When a signal (launch/watch/signals.hpp) ends the ranks: between_steps if the body looks at the stop
// request.
enum class Stops { at_once, between_steps };

}  // namespace tessera::job
