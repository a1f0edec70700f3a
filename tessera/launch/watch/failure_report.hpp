// The one message that people get when a job ends badly: who failed first, where, what the others were doing,
// and what to do about it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "tessera/base/process/activity.hpp"
#include "tessera/launch/watch/child.hpp"

namespace tessera::launch {

// A rank that has thrown tells it before it ends, and one that lost a peer may tell so before the peer is
// missed: so long the cause is waited for.
inline constexpr double kSecondsForTheCause = 0.5;

// What the first signal is answered with, such as Ctrl-C.
std::string stopping_text(int signal, double grace_seconds);
// The job did not stop in the time that it was given.
std::string grace_text(int signal, double grace_seconds);

// Who holds up the others, in a sentence; rank -1: nobody stands out.
struct Culprit {
  int rank = -1;
  std::string sentence;
};

// How what the board shows is put into words. The launcher knows no programs, so whoever does hands these in.
struct RankDescriber {
  // "in op 12 (...) of step 3 for 31.0 s".
  std::function<std::string(int rank, const RankState& state, double now_seconds)> doing;
  std::function<Culprit(std::span<const RankState> states, double now_seconds)> culprit;
};

// Knows only what is no op.
RankDescriber plain_describer();

// All ranks at one time.
struct Snapshot {
  std::vector<RankState> states;
  double now_seconds = 0;
};

// A rank ended by itself.
std::string ending_text(int rank, const Ending& ending, const Snapshot& snapshot,
                        const RankDescriber& describer);

// A rank of a job that others started: how it ended is theirs to tell.
std::string lost_text(int rank, const Snapshot& snapshot, const RankDescriber& describer);

// Nobody ended, but somebody waited longer than `timeout_seconds`. `note` is about the culprit's process;
// may be empty.
std::string hang_text(const Culprit& culprit, double timeout_seconds, const std::string& note);

// Whether a limit that the user has set ended it (ulimit -f, ulimit -t).
bool is_of_limit(const Ending& ending);

// The exit code of a job whose rank ended like this: what is broken in Tessera is 70, a rank that something
// outside killed 75 (start again), else the rank's own.
int job_exit_code(const Ending& ending);

}  // namespace tessera::launch
