#include "tessera/launch/job.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/restarts.hpp"
#include "tessera/launch/watch/signals.hpp"

namespace tessera::launch {
namespace {

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

}  // namespace

Job::Job(const SpawnOptions& options, SignalMailbox& signals, StatusBoard& board, QueuedWriter& report)
    : options_(options),
      report_(report),
      signals_(signals),
      server_({.may_be_lost = [this](int rank) { return may_be_lost(rank); }}),
      board_(board),
      started_seconds_(static_cast<std::size_t>(options.num_ranks)),
      stopped_since_seconds_(static_cast<std::size_t>(options.num_ranks)) {
  for (int rank = 0; rank < options.num_ranks; ++rank)
    if (const auto part = part_of(rank)) parts_[*part].ranks.push_back(rank);
}

JobEnd Job::run() {
  start_all();
  while (count_running() > 0) {
    look_for_failure();
    look_for_losses();
    look_for_hang();
    end_if_due();
    wait_for_news();
  }
  look_for_failure();
  for (int rank = 0; rank < options_.num_ranks; ++rank) pass_on_errors(rank, true);
  report_.write(message());
  return end();
}

Child Job::started(int rank, bool is_newcomer) {
  started_seconds_[static_cast<std::size_t>(rank)] = now_seconds();
  const Descriptor store = server_.connect({rank, is_newcomer});
  return Child(options_.command, environment_of(rank, options_, store, board_.descriptor(), is_newcomer),
               std::vector<const Descriptor*>{&store, &board_.descriptor()},
               stops_between_steps() ? stop_signals() : no_signals());
}

void Job::start_all() {
  try {
    for (int rank = 0; rank < options_.num_ranks; ++rank) children_.push_back(started(rank, false));
  } catch (...) {
    end_all(SIGKILL);
    while (count_running() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw;
  }
}

void Job::end_all(int signal) {
  for (const auto& child : children_) child.signal(signal);
}

JobEnd Job::end() {
  if (hang_) return {kExitPeerLost, true, hang_->rank, snapshot_.now_seconds};
  if (is_interrupted()) return {.code = stop().exit_code()};
  if (!first_) return {};
  return {job_exit_code(first_->ending), may_start_again(first_->ending), first_->rank,
          snapshot_.now_seconds};
}

// By request, and not by a failure that came before it or while the ranks finished their step.
bool Job::is_interrupted() {
  return stop().signal() != 0 && (!first_ || (ends_at_once_ && first_->ending.signal));
}

bool Job::has_ended(int rank) { return children_[static_cast<std::size_t>(rank)].ending().has_value(); }
bool Job::has_finished(int rank) const { return board_.log(rank).state().is_finished(); }

int Job::count_running() {
  return static_cast<int>(std::ranges::count_if(children_, [](Child& child) { return !child.ending(); }));
}

// A rank that has reported its error may take long to end: what it holds may wait for its peers.
std::optional<Ending> Job::failure_of(int rank) {
  if (may_be_lost(rank)) return std::nullopt;
  const auto& end = children_[static_cast<std::size_t>(rank)].ending();
  if (end) return end->code == 0 ? std::nullopt : std::optional(*end);
  if (!board_.log(rank).has_failed()) return std::nullopt;
  return Ending{board_.log(rank).state().error_code, 0};
}

// A rank that lost a peer may end before the peer that was lost: it counts as first only if no other cause
// is seen.
void Job::look_for_failure() {
  if (is_ending()) return;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    const auto end = failure_of(rank);
    if (!end) continue;
    if (!first_) snapshot_ = {board_.states(), now_seconds()};
    if (!first_ || (first_->ending.code == kExitPeerLost && end->code != kExitPeerLost))
      first_ = Failure{rank, *end};
  }
}

void Job::end_if_due() {
  const double now = now_seconds();
  if (is_ending()) {
    if (now - ending_since_seconds_ > std::chrono::duration<double>(options_.patience).count())
      end_all(SIGKILL);
    return;
  }
  const bool is_cause_known =
      first_ && (first_->ending.code != kExitPeerLost || now - snapshot_.now_seconds > kSecondsForTheCause);
  if (!is_cause_known && !hang_ && !ends_at_once_) return;
  ending_since_seconds_ = now;
  // At once: what hangs may take long to die.
  if (hang_) report_.write(hang_text(*hang_, options_.timeout_seconds, hang_note_));
  // Ranks that stop between steps would take SIGTERM for a request.
  end_all(stops_between_steps() ? SIGKILL : SIGTERM);
}

void Job::wait_for_news() {
  std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
  for (const auto& child : children_) polled.push_back({child.errors_descriptor(), POLLIN, 0});
  // SIGCHLD may go to another thread of this process, so the children are looked at now and then anyway.
  constexpr int kLookMilliseconds = 50;
  poll(polled.data(), polled.size(), kLookMilliseconds);
  while (const int signal = signals_.take_stop_signal()) stop().ask(signal, now_seconds());
  look_for_request();
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    children_[static_cast<std::size_t>(rank)].collect_errors();
    pass_on_errors(rank, false);
  }
}

// A signal to this process or to a rank.
void Job::look_for_request() {
  if (stop().signal() == 0 || is_ending()) return;
  if (!stops_between_steps() || stop().ends_at_once()) {
    ends_at_once_ = true;
  } else if (!is_stop_told_) {
    is_stop_told_ = true;
    report_.write(stopping_text(stop().signal(), options_.grace_seconds));
  } else if (stop().since_seconds() > 0 && now_seconds() - stop().since_seconds() > options_.grace_seconds) {
    ends_at_once_ = is_grace_over_ = true;
  }
}

// Whole lines, with the rank in front; at the end what is left of one too.
void Job::pass_on_errors(int rank, bool last) {
  std::string out;
  for (const auto& line : children_[static_cast<std::size_t>(rank)].take_error_lines(last))
    out += cat("[rank ", rank, "] ", line, "\n");
  report_.write(std::move(out));
}

std::string Job::message() {
  if (hang_) return "";                                     // reported when it was noticed
  if (first_ && first_->ending.code == kExitNo) return "";  // the rank itself has reported why
  if (first_ && !is_interrupted()) {
    // It may have reported its error after the snapshot was taken.
    snapshot_.states[static_cast<std::size_t>(first_->rank)].error = board_.log(first_->rank).state().error;
    return ending_text(first_->rank, first_->ending, snapshot_, options_.describer);
  }
  if (is_grace_over_) return grace_text(stop().signal(), options_.grace_seconds);
  return ends_at_once_ ? cat("tessera: interrupted by signal ", stop().signal(), ": all ranks are ended\n")
                       : "";
}

}  // namespace tessera::launch
