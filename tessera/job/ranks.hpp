// Loads a run, starts its ranks and calls a function on each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/launch/store/join.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/spec/spec.hpp"

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

inline constexpr int kProcsOfLayout = -1;

// What the command line says of a run and its ranks.
struct JobOptions {
  std::string file;                    // the run file
  std::vector<std::string> overrides;  // section.key=value
  // Local rank processes, or kProcsOfLayout; 0: not said (train as the layout, verify on threads).
  int procs = 0;
  // Ranks that others started by setting RANK, WORLD_SIZE and MASTER_ADDR are joined: only to train.
  launch::Joins joins = launch::Joins::known_starters;
  std::vector<std::string> argv;  // of this process, to start ranks with
  double main_seconds = 0;        // when its main began
  // The step of the newest checkpoint of the run, 0 if there is none: ranks that are started again resume
  // from it. Empty: they are not started again.
  std::function<std::int64_t()> newest_state = nullptr;
};

// Environment of ranks: when the launcher's main began, in now_seconds().
inline constexpr char kStartedAt[] = "TESSERA_STARTED_AT";
// Environment of ranks that train: "fd:<number>" of the run as its launcher has resolved it. A rank that
// starts later must not see what has become of the run file since.
inline constexpr char kRun[] = "TESSERA_RUN";

// Whether this process is a rank of `tessera train --procs` and the like.
bool started_by_launcher();

// The run of the options, validated for this build. --procs, or the number of ranks that were started, widens
// a layout of one rank to that many data-parallel ones; any other disagreement is an error.
spec::Run load_run(const JobOptions& options);
// The same to plan for a build that may train it elsewhere: who started this process does not matter.
spec::Run load_run(const JobOptions& options, const spec::Build& build);

// What each rank is given.
struct Rank {
  const collective::Communicator& communicator;
  ActivityLog* log = nullptr;   // where it writes what it is doing
  StopRequest* stop = nullptr;  // looked at between steps
  // What earlier starts of this job's ranks have left; null where nobody starts them again.
  RestartLog* restarts = nullptr;
  // Where the others go on without this one if need be; null: nowhere.
  const collective::Attendance* attendance = nullptr;
  // Of the ranks that this one can see.
  std::function<std::vector<std::int64_t>()> resident_bytes, peak_bytes;
};

// When a signal (launch/watch/signals.hpp) ends the ranks: between_steps if the body looks at the stop
// request.
enum class Stops { at_once, between_steps };

// Starts the ranks of the run and calls `body` on each, as processes or as threads; in a process
// that a launcher started, joins it. Returns the exit code.
int on_ranks(const spec::Run& run, const JobOptions& options, const std::function<void(const Rank&)>& body,
             Stops stops = Stops::at_once);

}  // namespace tessera::job
