#include "tessera/launch/spawn.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/queued_writer.hpp"
#include "tessera/base/process/process_stat.hpp"
#include "tessera/launch/store/key_server.hpp"
#include "tessera/launch/store/open_files.hpp"
#include "tessera/launch/watch/child.hpp"
#include "tessera/launch/watch/signals.hpp"
#include "tessera/launch/watch/status_board.hpp"

namespace tessera::launch {
namespace {

// While it lives, stop signals and SIGCHLD arrive as data of a descriptor.
class SignalMailbox {
 public:
  SignalMailbox() {
    sigset_t heard = stop_signals();
    sigaddset(&heard, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &heard, &before_);
    descriptor_ = Descriptor(signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
    TESSERA_CHECK(static_cast<bool>(descriptor_), system_reason());
  }
  ~SignalMailbox() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalMailbox(const SignalMailbox&) = delete;
  SignalMailbox& operator=(const SignalMailbox&) = delete;

  int descriptor() const { return descriptor_.number(); }
  // The next stop signal that has come; 0: none.
  int take_stop_signal() {
    signalfd_siginfo info;
    while (read(descriptor_.number(), &info, sizeof(info)) == sizeof(info))
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    return 0;
  }

 private:
  sigset_t before_;
  Descriptor descriptor_;
};

std::vector<std::string> environment_of(int rank, const SpawnOptions& options, const Descriptor& store,
                                        const Descriptor& board, bool is_newcomer) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const auto is_ours = [&](std::string_view name) { return text.starts_with(name); };
    const auto ours = {"TESSERA_RANK=",  "TESSERA_WORLD_SIZE=", "TESSERA_STORE=",
                       "TESSERA_BOARD=", "TESSERA_JOB=",        "TESSERA_NEWCOMER="};
    if (std::ranges::none_of(ours, is_ours)) out.emplace_back(text);
  }
  out.push_back(cat("TESSERA_RANK=", rank));
  out.push_back(cat("TESSERA_WORLD_SIZE=", options.num_ranks));
  out.push_back(cat("TESSERA_STORE=fd:", store.number()));
  out.push_back(cat("TESSERA_BOARD=fd:", board.number()));
  out.push_back(cat("TESSERA_JOB=", options.job));
  if (is_newcomer) out.push_back("TESSERA_NEWCOMER=1");
  return out;
}

sigset_t no_signals() {
  sigset_t none;
  sigemptyset(&none);
  return none;
}

// Stopped by a signal or a debugger?
bool is_stopped(pid_t process) {
  const auto words = process_stat(process);
  return !words.empty() && (words[0] == "T" || words[0] == "t");
}

class Job {
 public:
  explicit Job(const SpawnOptions& options)
      : options_(options),
        report_({.descriptor = options.report_descriptor}),
        server_({.may_be_lost = [this](int rank) { return may_be_lost(rank); }}),
        board_(options.num_ranks),
        started_seconds_(static_cast<std::size_t>(options.num_ranks)),
        stopped_since_seconds_(static_cast<std::size_t>(options.num_ranks)) {
    for (int rank = 0; rank < options.num_ranks; ++rank)
      if (const auto part = part_of(rank)) parts_[*part].ranks.push_back(rank);
  }

  int run() {
    for (int rank = 0; rank < options_.num_ranks; ++rank) children_.push_back(started(rank, false));
    while (count_running() > 0) {
      look_for_failure();
      look_for_losses();
      look_for_hang();
      end_if_due();
      wait_for_news();
    }
    look_for_failure();
    for (std::size_t rank = 0; rank < children_.size(); ++rank) pass_on_errors(rank, true);
    report_.write(message());
    report_.wait(options_.timeout_seconds > 0 ? options_.timeout_seconds / 2 : kPatienceSeconds);
    if (hang_) return kExitPeerLost;
    if (is_interrupted()) return stop().exit_code();
    return first_ ? job_exit_code(first_->ending) : 0;
  }

 private:
  struct Failure {
    int rank = 0;
    Ending ending;
  };

  // Of the ranks of a dispensable part.
  struct Part {
    std::vector<int> ranks;
    bool is_lost = false;
    bool is_cleared = false;  // of a lost one: its ranks have ended, and their places are blank
    bool may_return = true;   // it was no error of its own, which would come again
    double lost_seconds = 0;
    std::int64_t restarts = 0;
  };

  Child started(int rank, bool is_newcomer) {
    started_seconds_[static_cast<std::size_t>(rank)] = now_seconds();
    const Descriptor store = server_.connect({rank, is_newcomer});
    return Child(options_.command, environment_of(rank, options_, store, board_.descriptor(), is_newcomer),
                 std::vector<const Descriptor*>{&store, &board_.descriptor()},
                 stops_between_steps() ? stop_signals() : no_signals());
  }

  bool is_ending() const { return ending_since_seconds_ >= 0; }
  bool stops_between_steps() const { return options_.grace_seconds > 0; }
  StopRequest& stop() { return board_.stop_request(); }
  // By request, and not by a failure that came before it or while the ranks finished their step.
  bool is_interrupted() {
    return stop().signal() != 0 && (!first_ || (ends_at_once_ && first_->ending.signal));
  }

  int count_running() {
    return static_cast<int>(std::ranges::count_if(children_, [](Child& child) { return !child.ending(); }));
  }

  // A rank that lost a peer may end before the peer that was lost: it counts as first only if no other cause
  // is seen.
  void look_for_failure() {
    if (is_ending()) return;
    for (int rank = 0; rank < options_.num_ranks; ++rank) {
      const auto end = failure_of(rank);
      if (!end) continue;
      if (!first_) snapshot_ = {board_.states(), now_seconds()};
      if (!first_ || (first_->ending.code == kExitPeerLost && end->code != kExitPeerLost))
        first_ = Failure{rank, *end};
    }
  }

  std::optional<int> part_of(int rank) const {
    return options_.dispensable_part ? options_.dispensable_part(rank) : std::nullopt;
  }
  bool may_be_lost(int rank) const { return part_of(rank).has_value(); }

  // Whether a rank that may be lost has ended badly; one that shows no sign of life is ended.
  bool is_lost(int rank) {
    Child& child = children_[static_cast<std::size_t>(rank)];
    if (const auto& end = child.ending()) return end->code != 0 || end->signal != 0;
    const double now = now_seconds();
    if (options_.timeout_seconds > 0 && !has_finished(static_cast<std::size_t>(rank)) &&
        last_sign_seconds(static_cast<std::size_t>(rank), now) < now - options_.timeout_seconds)
      child.signal(SIGKILL);
    return false;
  }

  void look_for_losses() {
    if (is_ending() || first_) return;
    const bool is_over = are_others_through();
    for (auto& [number, part] : parts_) {
      if (!part.is_lost && is_over) send_away(part);
      if (!part.is_lost) look_at(part);
      if (part.is_lost) clear(part);
      if (part.is_cleared && !is_over) start_again(part);
    }
  }

  bool has_ended(int rank) { return children_[static_cast<std::size_t>(rank)].ending().has_value(); }
  bool have_ended(const Part& part) {
    return std::ranges::all_of(part.ranks, [this](int rank) { return has_ended(rank); });
  }

  // All but those that may be lost have ended.
  bool are_others_through() {
    for (int rank = 0; rank < options_.num_ranks; ++rank)
      if (!may_be_lost(rank) && !has_ended(rank)) return false;
    return true;
  }

  void look_at(Part& part) {
    const auto lost = std::ranges::find_if(part.ranks, [&](int rank) { return is_lost(rank); });
    if (lost == part.ranks.end()) return;
    const Ending ending = *children_[static_cast<std::size_t>(*lost)].ending();
    part.may_return = ending.signal != 0 || ending.code == kExitPeerLost;
    do_without(part, ending_text(*lost, ending, {board_.states(), now_seconds()}, options_.describer));
  }

  void do_without(Part& part, const std::string& why) {
    part.is_lost = true;
    part.lost_seconds = now_seconds();
    report_.write(cat(why, "The others go on without it.",
                      options_.restarts > 0 && !part.may_return
                          ? " It is not started again: it would end the same way."
                          : "",
                      "\n"));
    end(part);
  }

  void end(const Part& part) {
    for (const int rank : part.ranks) children_[static_cast<std::size_t>(rank)].signal(SIGKILL);
  }

  // Of one that was started again too late: it has not come as far as to ask.
  void send_away(Part& part) {
    const auto is_loading = [&](int rank) {
      const RankState state = board_.log(rank).state();
      return !has_ended(rank) && (!state.now() || state.now()->doing <= Doing::resuming);
    };
    if (part.restarts == 0 || std::ranges::none_of(part.ranks, is_loading)) return;
    part.is_lost = true;
    end(part);
  }

  // What its ranks were at last says nothing about the others.
  void clear(Part& part) {
    if (part.is_cleared || !have_ended(part)) return;
    part.is_cleared = true;
    for (const int rank : part.ranks) {
      pass_on_errors(static_cast<std::size_t>(rank), true);
      board_.clear(rank);
    }
  }

  static std::string ranks_text(const std::vector<int>& ranks) {
    std::vector<std::string> words;
    for (const int rank : ranks) words.push_back(cat(rank));
    return cat(ranks.size() == 1 ? "rank " : "ranks ", join(words, ", "), ranks.size() == 1 ? " is" : " are");
  }

  // When all of it have ended; each time later than the last.
  void start_again(Part& part) {
    constexpr double kLongestPause = 60;
    const double pause =
        part.restarts == 0
            ? 0
            : std::min(kLongestPause,
                       std::exp2(static_cast<double>(std::min<std::int64_t>(part.restarts, 8))));
    if (!part.may_return || part.restarts == options_.restarts || stop().signal() != 0 ||
        now_seconds() - part.lost_seconds < pause)
      return;
    ++part.restarts;
    part.is_lost = part.is_cleared = false;
    try {
      for (const int rank : part.ranks) {
        stopped_since_seconds_[static_cast<std::size_t>(rank)] = 0;
        children_[static_cast<std::size_t>(rank)] = started(rank, true);
      }
    } catch (const std::exception& error) {
      return do_without(part,
                        cat("tessera: ", ranks_text(part.ranks), " not started again: ", error.what(), ". "));
    }
    report_.write(cat("tessera: ", ranks_text(part.ranks), " started again (", part.restarts, " of ",
                      options_.restarts, ")\n"));
  }

  // A rank that has told its error may take long to end: what it holds may wait for its peers.
  std::optional<Ending> failure_of(int rank) {
    if (may_be_lost(rank)) return std::nullopt;
    const auto& end = children_[static_cast<std::size_t>(rank)].ending();
    if (end) return end->code == 0 ? std::nullopt : std::optional(*end);
    if (!board_.log(rank).has_failed()) return std::nullopt;
    return Ending{board_.log(rank).state().error_code, 0};
  }

  // What a rank loads before its first sign of life, and unloads after its last, takes long on a busy
  // machine.
  static constexpr double kLoadingSeconds = 60;

  bool has_finished(std::size_t rank) const {
    return board_.log(static_cast<int>(rank)).state().is_finished();
  }

  // The last sign of life of a rank; while one is stopped it does not load.
  double last_sign_seconds(std::size_t rank, double now) {
    const double beat = board_.log(static_cast<int>(rank)).beat_seconds();
    if (beat > 0) return beat;
    if (!is_stopped(children_[rank].process()))
      stopped_since_seconds_[rank] = 0;
    else if (stopped_since_seconds_[rank] == 0)
      stopped_since_seconds_[rank] = now;
    if (stopped_since_seconds_[rank] > 0) return stopped_since_seconds_[rank];
    return now - started_seconds_[rank] > kLoadingSeconds ? started_seconds_[rank] : now;
  }

  void look_for_hang() {
    if (options_.timeout_seconds <= 0 || is_ending() || first_) return;
    // Those that wait for one that may be lost wait until it is.
    const double now = now_seconds(),
                 limit = now - (options_.dispensable_part ? 2 : 1) * options_.timeout_seconds;
    bool hangs = false, all_here = true;
    for (std::size_t rank = 0; rank < children_.size() && !hangs; ++rank) {
      if (children_[rank].ending()) continue;
      all_here = all_here && board_.log(static_cast<int>(rank)).beat_seconds() > 0;
      const double last_sign = last_sign_seconds(rank, now);
      hangs = !may_be_lost(static_cast<int>(rank)) && last_sign < limit &&
              (last_sign < limit - kLoadingSeconds || !has_finished(rank));
    }
    // What was waited before that was for ranks that were loading.
    if (!all_here) all_here_seconds_ = now;
    bool all_stand = all_here_seconds_ < limit;
    for (int rank = 0; rank < options_.num_ranks && all_stand && !hangs; ++rank)
      all_stand = has_ended(rank) || board_.log(rank).progress_seconds() < limit;
    for (int rank = 0; rank < options_.num_ranks && all_stand && !hangs; ++rank) {
      const double waiting = board_.log(rank).waiting_since_seconds();
      hangs = !has_ended(rank) && waiting > 0 && waiting < limit;
    }
    if (!hangs) return;
    snapshot_ = {board_.states(), now};
    // Whoever has ended holds up nobody any more.
    for (int rank = 0; rank < options_.num_ranks; ++rank)
      if (has_ended(rank)) {
        RankState& state = snapshot_.states[static_cast<std::size_t>(rank)];
        state = RankState();
        state.lanes = {{-1, 0, {Activity{.doing = Doing::finished}}}};
      }
    hang_ = options_.describer.culprit(snapshot_.states, snapshot_.now_seconds);
    if (hang_->rank >= 0) {
      const pid_t process = children_[static_cast<std::size_t>(hang_->rank)].process();
      if (is_stopped(process))
        hang_note_ = cat("Rank ", hang_->rank, " (process ", process,
                         ") was stopped by a signal or a debugger; kill -CONT would have continued it.");
    }
    const auto part = hang_->rank >= 0 ? part_of(hang_->rank) : std::nullopt;
    if (!part || parts_.at(*part).is_lost) return;
    do_without(parts_.at(*part), hang_text(*hang_, options_.timeout_seconds, hang_note_));
    hang_.reset();
    hang_note_.clear();
    all_here_seconds_ = now;
  }

  void end_if_due() {
    const double now = now_seconds();
    if (is_ending()) {
      if (now - ending_since_seconds_ > std::chrono::duration<double>(options_.patience).count())
        for (const auto& child : children_) child.signal(SIGKILL);
      return;
    }
    const bool is_cause_known =
        first_ && (first_->ending.code != kExitPeerLost || now - snapshot_.now_seconds > kSecondsForTheCause);
    if (!is_cause_known && !hang_ && !ends_at_once_) return;
    ending_since_seconds_ = now;
    // At once: what hangs may take long to die.
    if (hang_) report_.write(hang_text(*hang_, options_.timeout_seconds, hang_note_));
    // Ranks that stop between steps would take SIGTERM for a request.
    for (const auto& child : children_) child.signal(stops_between_steps() ? SIGKILL : SIGTERM);
  }

  void wait_for_news() {
    std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
    for (const auto& child : children_) polled.push_back({child.errors_descriptor(), POLLIN, 0});
    // SIGCHLD may go to another thread of this process, so the children are looked at now and then anyway.
    constexpr int kLookMilliseconds = 50;
    poll(polled.data(), polled.size(), kLookMilliseconds);
    while (const int signal = signals_.take_stop_signal()) stop().ask(signal, now_seconds());
    look_for_request();
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      children_[rank].collect_errors();
      pass_on_errors(rank, false);
    }
  }

  // Of a signal to this process or to a rank.
  void look_for_request() {
    if (stop().signal() == 0 || is_ending()) return;
    if (!stops_between_steps() || stop().ends_at_once()) {
      ends_at_once_ = true;
    } else if (!is_stop_told_) {
      is_stop_told_ = true;
      report_.write(stopping_text(stop().signal(), options_.grace_seconds));
    } else if (stop().since_seconds() > 0 &&
               now_seconds() - stop().since_seconds() > options_.grace_seconds) {
      ends_at_once_ = is_grace_over_ = true;
    }
  }

  // Whole lines, with the rank in front; at the end what is left of one too.
  void pass_on_errors(std::size_t rank, bool last) {
    std::string out;
    for (const auto& line : children_[rank].take_error_lines(last))
      out += cat("[rank ", rank, "] ", line, "\n");
    report_.write(std::move(out));
  }

  std::string message() {
    if (hang_) return "";                                     // told when it was noticed
    if (first_ && first_->ending.code == kExitNo) return "";  // the rank itself has told why
    if (first_ && !is_interrupted()) {
      // It may have told its error after the snapshot was taken.
      snapshot_.states[static_cast<std::size_t>(first_->rank)].error = board_.log(first_->rank).state().error;
      return ending_text(first_->rank, first_->ending, snapshot_, options_.describer);
    }
    if (is_grace_over_) return grace_text(stop().signal(), options_.grace_seconds);
    return ends_at_once_ ? cat("tessera: interrupted by signal ", stop().signal(), ": all ranks are ended\n")
                         : "";
  }

  static constexpr double kPatienceSeconds = 10;  // for a standard error that takes nothing, at the end

  const SpawnOptions& options_;
  QueuedWriter report_;    // a standard error that takes nothing must not hold up the watch
  SignalMailbox signals_;  // before the server, whose thread must not take the signals
  KeyServer server_;
  StatusBoard board_;
  std::vector<Child> children_;
  std::vector<double> started_seconds_;
  double all_here_seconds_ = 0;
  std::vector<double> stopped_since_seconds_;  // before their first sign of life; 0: not stopped
  std::map<int, Part> parts_;                  // that may be lost
  bool is_stop_told_ = false, is_grace_over_ = false;
  bool ends_at_once_ = false;  // because a signal asked for it
  std::optional<Failure> first_;
  std::optional<Culprit> hang_;
  std::string hang_note_;
  Snapshot snapshot_;  // when it was noticed
  double ending_since_seconds_ = -1;
};

}  // namespace

int run_local_ranks(const SpawnOptions& options) {
  if (options.num_ranks < 1)
    throw UserError(cat("cannot start ", options.num_ranks, " ranks; at least 1 is needed"));
  TESSERA_CHECK(!options.command.empty(), "no command to start");
  // A rank takes two descriptors of the launcher: its stderr and its connection to the key server.
  reserve_open_files(options.num_ranks, 2 * static_cast<std::size_t>(options.num_ranks) + 32, "the launcher");
  return Job(options).run();
}

}  // namespace tessera::launch
