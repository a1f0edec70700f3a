#include <signal.h>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/process/process_stat.hpp"
#include "tessera/launch/job.hpp"

namespace tessera::launch {
namespace {

// What a rank loads before its first sign of life, and unloads after its last, takes long on a busy machine.
constexpr double kLoadingSeconds = 60;

// Stopped by a signal or a debugger?
bool is_stopped(pid_t process) {
  const auto words = process_stat(process);
  return !words.empty() && (words[0] == "T" || words[0] == "t");
}

}  // namespace

// The last sign of life of a rank; while one is stopped it does not load.
double Job::last_sign_seconds(int rank, double now) {
  const double beat = board_.log(rank).beat_seconds();
  if (beat > 0) return beat;
  double& stopped_since = stopped_since_seconds_[static_cast<std::size_t>(rank)];
  if (!is_stopped(children_[static_cast<std::size_t>(rank)].process()))
    stopped_since = 0;
  else if (stopped_since == 0)
    stopped_since = now;
  if (stopped_since > 0) return stopped_since;
  const double started = started_seconds_[static_cast<std::size_t>(rank)];
  return now - started > kLoadingSeconds ? started : now;
}

// Whether a rank that the job needs gives no sign of life.
bool Job::is_silent(double now, double limit) {
  bool all_here = true, out = false;
  for (int rank = 0; rank < options_.num_ranks && !out; ++rank) {
    if (has_ended(rank)) continue;
    all_here = all_here && board_.log(rank).beat_seconds() > 0;
    const double last_sign = last_sign_seconds(rank, now);
    out = !may_be_lost(rank) && last_sign < limit &&
          (last_sign < limit - kLoadingSeconds || !has_finished(rank));
  }
  // What was waited before that was for ranks that were loading.
  if (!all_here) all_here_seconds_ = now;
  return out;
}

// Whether nothing begins or ends on any rank while one of them waits.
bool Job::is_stuck(double limit) {
  if (all_here_seconds_ >= limit) return false;
  bool waits = false;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    if (has_ended(rank)) continue;
    if (board_.log(rank).progress_seconds() >= limit) return false;
    const double waiting = board_.log(rank).waiting_since_seconds();
    waits = waits || (waiting > 0 && waiting < limit);
  }
  return waits;
}

void Job::name_culprit(double now) {
  snapshot_ = {board_.states(), now};
  // Whoever has ended holds up nobody any more.
  for (int rank = 0; rank < options_.num_ranks; ++rank)
    if (has_ended(rank)) {
      RankState& state = snapshot_.states[static_cast<std::size_t>(rank)];
      state = RankState();
      state.lanes = {{-1, 0, {Activity{.doing = Doing::finished}}}};
    }
  hang_ = options_.describer.culprit(snapshot_.states, snapshot_.now_seconds);
  if (hang_->rank < 0) return;
  const pid_t process = children_[static_cast<std::size_t>(hang_->rank)].process();
  if (is_stopped(process))
    hang_note_ = cat("Rank ", hang_->rank, " (process ", process,
                     ") was stopped by a signal or a debugger; kill -CONT would have continued it.");
}

void Job::look_for_hang() {
  if (options_.timeout_seconds <= 0 || is_ending() || first_) return;
  // Those that wait for one that may be lost wait until it is.
  const double now = now_seconds(),
               limit = now - (options_.dispensable_part ? 2 : 1) * options_.timeout_seconds;
  if (!is_silent(now, limit) && !is_stuck(limit)) return;
  name_culprit(now);
  const auto part = hang_->rank >= 0 ? part_of(hang_->rank) : std::nullopt;
  if (!part || parts_.at(*part).is_lost) return;
  do_without(parts_.at(*part), hang_text(*hang_, options_.timeout_seconds, hang_note_));
  hang_.reset();
  hang_note_.clear();
  all_here_seconds_ = now;
}

}  // namespace tessera::launch
