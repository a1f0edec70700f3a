// Starts, watches and ends the ranks of one machine together: one process per rank; the first failure ends
// them all, and is the one that is reported. They may then all be started again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/launch/watch/failure_report.hpp"

namespace tessera::launch {

struct SpawnOptions {
  int num_ranks = 1;
  std::vector<std::string> command;  // program and arguments; a program without '/' is looked up in PATH
  std::string job = "local";
  // A rank that waits longer than this for another, or shows no sign of life, ends the job; 0: ranks are not
  // watched, for commands that don't write to their board.
  double timeout_seconds = 0;
  // Which part of the job a rank belongs to, where the others do without that part: if one rank of it ends
  // badly the others of it are ended too, which is told, and the job goes on. Nothing: the job ends with the
  // rank. Empty: so it is for all.
  std::function<std::optional<int>(int rank)> dispensable_part;
  // How often the ranks of such a part are started again, as newcomers (TESSERA_NEWCOMER=1), after longer and
  // longer pauses; not after an error of their own, which would come again.
  std::int64_t part_restarts = 0;
  // How often in a row all ranks are started again without a newer state on the disk in between, also after
  // longer and longer pauses and not after an error of their own. Ranks find how often they were started in
  // the board's restart log.
  std::int64_t restarts = 0;
  // The step of the newest state on the disk from which all ranks can resume, 0 if there is none.
  std::function<std::int64_t()> newest_state;
  RankDescriber describer = plain_describer();
  // The ranks take stop signals by themselves (StopOnSignals) and look at the board's stop request between
  // steps. They have this long to stop after the first signal; 0: a signal ends them at once.
  double grace_seconds = 0;
  int report_descriptor = 2;                // where failures and the ranks' stderr are told
  std::chrono::milliseconds patience{300};  // between SIGTERM and SIGKILL
};

// Runs the command as ranks 0..num_ranks-1, with TESSERA_RANK, TESSERA_WORLD_SIZE, TESSERA_STORE
// (fd:<number>, an inherited connection to the KeyServer), TESSERA_BOARD (fd:<number>, where they show what
// they do) and TESSERA_JOB in their environment, and returns when none is left. Their stdout is passed
// through, and their stderr too, line by line with the rank in front. The first failure ends all ranks and is
// reported in one message. With restarts, nothing of a start (processes, sockets, shared memory) outlives it
// but the board, with its requests to stop.
//
// A stop signal (launch/watch/signals.hpp) to the launcher or, with a grace, to any rank ends the ranks: at
// once, or after the step they are in; then a second one, or the end of the grace, ends them at once. Other
// threads of the caller must not take these signals. Returns 0, or job_exit_code of the failure, or 128 + the
// signal. Raises this process's limit of open files if the ranks need more; throws UserError when it can't.
int run_local_ranks(const SpawnOptions& options);

}  // namespace tessera::launch
