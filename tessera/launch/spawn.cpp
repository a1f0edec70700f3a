#include "tessera/launch/spawn.hpp"

#include <poll.h>

#include <algorithm>
#include <optional>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/queued_writer.hpp"
#include "tessera/launch/job.hpp"
#include "tessera/launch/restarts.hpp"
#include "tessera/launch/store/open_files.hpp"
#include "tessera/launch/watch/signal_mailbox.hpp"
#include "tessera/launch/watch/status_board.hpp"

namespace tessera::launch {
namespace {

// Starts a job and, when its ranks die, all of them again.
class Supervisor {
 public:
  explicit Supervisor(const SpawnOptions& options)
      : options_(options),
        report_({.descriptor = options.report_descriptor}),
        board_(options.num_ranks),
        first_state_(newest_state()),
        state_(first_state_) {
    board_.restart_log().hold(state_, now_seconds());
  }

  int run() {
    JobEnd end = run_once();
    while (restarts() && end.code != 0 && is_started_again(end)) end = run_once();
    report_.wait(options_.timeout_seconds > 0 ? options_.timeout_seconds / 2 : kPatienceSeconds);
    return end.code;
  }

 private:
  bool restarts() const { return options_.restarts > 0; }
  std::int64_t newest_state() const { return restarts() ? options_.newest_state() : 0; }
  RestartLog& log() { return board_.restart_log(); }
  StopRequest& stop() { return board_.stop_request(); }

  // A start after the first that can't make its processes counts as one that brought nothing.
  JobEnd run_once() {
    try {
      return Job(options_, signals_, board_, report_).run();
    } catch (const UserError& error) {
      if (log().count() == 0) throw;
      report_.write(cat("tessera: the ranks could not be started: ", error.what(), "\n"));
      return {.code = kExitUserError, .may_start_again = true, .seconds = now_seconds()};
    }
  }

  // Decides, says so and waits until it is time. What the job ends with, if it does, is put into `end`.
  bool is_started_again(JobEnd& end) {
    note_progress();
    if (stop().signal() != 0) return end_by_request(end);
    if (!end.may_start_again) {
      report_.write("tessera: the ranks are not started again, as they would end the same way.\n");
      return false;
    }
    if (log().is_complete()) {
      report_.write("tessera: the run was complete by then.\n");
      end.code = 0;
      return false;
    }
    if (fruitless_ == options_.restarts) {
      report_.write(cat("tessera: the ranks are not started again: ", fruitless_,
                        fruitless_ == 1 ? " restart" : " restarts in a row",
                        " (cluster.restarts) brought no newer checkpoint than ",
                        state_ > first_state_ ? cat("that of step ", state_) : "what this job began with",
                        ".\n"));
      return false;
    }
    const double pause = seconds_before_restart(fruitless_);
    announce(end, pause);
    if (!wait(pause)) return end_by_request(end);
    begin_again();
    return true;
  }

  void note_progress() {
    // A folder that can't be read at the moment has not lost what was in it, and ranks must not begin anew.
    const std::int64_t found = std::max({newest_state(), log().saved_step(), state_});
    if (found > state_) fruitless_ = 0;
    state_ = found;
  }

  void announce(const JobEnd& end, double pause) {
    const std::int64_t left = options_.restarts - fruitless_ - 1;
    report_.write(
        cat("tessera: restart ", log().count() + 1, end.rank >= 0 ? cat(" after rank ", end.rank) : "", ": ",
            options_.num_ranks == 1 ? "it starts" : cat("all ", options_.num_ranks, " ranks start"), " again",
            pause > 0 ? cat(" in ", fixed(pause, 0), " s") : "",
            state_ > first_state_ ? cat(" from the checkpoint of step ", state_)
                                  : " from where this job began, as it has saved nothing yet",
            ". Without a newer checkpoint ",
            left == 0 ? "this is the last restart"
                      : cat(left, left == 1 ? " more restart is" : " more restarts are", " allowed"),
            ".\n"));
  }

  // Returns false as soon as somebody asks for the end of the job.
  bool wait(double seconds) {
    constexpr double kLookSeconds = 0.05;  // a signal may come to any thread of this process
    const double until = now_seconds() + seconds;
    do {
      pollfd polled{signals_.descriptor(), POLLIN, 0};
      const double left = std::clamp(until - now_seconds(), 0.0, kLookSeconds);
      poll(&polled, 1, static_cast<int>(left * 1000));
      while (const int signal = signals_.take_stop_signal()) stop().ask(signal, now_seconds());
    } while (stop().signal() == 0 && now_seconds() < until);
    return stop().signal() == 0;
  }

  // The failure is what ends the job if it came before the request.
  bool end_by_request(JobEnd& end) {
    if (!end.may_start_again || stop().since_seconds() < end.seconds) return false;
    report_.write(cat("tessera: signal ", stop().signal(),
                      ": the ranks are not started again. Starting the job again resumes from ",
                      state_ > first_state_ ? cat("the checkpoint of step ", state_) : "where it began",
                      ".\n"));
    end.code = stop().exit_code();
    return false;
  }

  void begin_again() {
    for (int rank = 0; rank < options_.num_ranks; ++rank) board_.clear(rank);
    log().restart(state_, state_ > first_state_);
    ++fruitless_;
  }

  static constexpr double kPatienceSeconds = 10;  // for a standard error that takes nothing, at the end

  const SpawnOptions& options_;
  QueuedWriter report_;    // a standard error that takes nothing must not hold up the watch
  SignalMailbox signals_;  // before a key server, whose thread must not take the signals
  StatusBoard board_;
  std::int64_t first_state_, state_;  // steps of the newest checkpoint: at the start of the job, and now
  std::int64_t fruitless_ = 0;        // restarts since a newer one was there
};

}  // namespace

int run_local_ranks(const SpawnOptions& options) {
  if (options.num_ranks < 1)
    throw UserError(cat("cannot start ", options.num_ranks, " ranks; at least 1 is needed"));
  TESSERA_CHECK(!options.command.empty(), "no command to start");
  TESSERA_CHECK(options.restarts == 0 || options.newest_state, "restarts need to know the newest state");
  // A rank takes two descriptors of the launcher: its stderr and its connection to the key server.
  reserve_open_files(options.num_ranks, 2 * static_cast<std::size_t>(options.num_ranks) + 32, "the launcher");
  return Supervisor(options).run();
}

}  // namespace tessera::launch
