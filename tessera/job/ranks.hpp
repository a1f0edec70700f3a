// Loads a run, starts its ranks and calls a function on each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/job/rank.hpp"
#include "tessera/launch/store/join.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/spec/spec.hpp"

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

// The run of the options, validated for this build. --procs, or the number of ranks that were started, widens
// a layout of one rank to that many data-parallel ones; any other disagreement is an error.
spec::Run load_run(const JobOptions& options);
// The same to plan for a build that may train it elsewhere: who started this process does not matter.
spec::Run load_run(const JobOptions& options, const spec::Build& build);

// Starts the ranks of the run and calls `body` on each, as processes or as threads; in a process
// that a launcher started, joins it. Returns the exit code.
int on_ranks(const spec::Run& run, const JobOptions& options, const std::function<void(const Rank&)>& body,
             Stops stops = Stops::at_once);

}  // namespace tessera::job
