#include "tessera/metrics/display/first_step.hpp"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>

#include "tessera/base/clock.hpp"
#include "tessera/base/files/queued_writer.hpp"
#include "tessera/base/text.hpp"
#include "tessera/metrics/display/terminal.hpp"

namespace tessera::metrics {

namespace {

constexpr std::chrono::milliseconds kLook{200};
constexpr double kLiveSeconds = 1, kLinesSeconds = 10;  // before the first word
constexpr double kStoppedSeconds = 0.2;                 // for a terminal that is stopped

}  // namespace

std::string progress_text(const Activity& at, std::size_t num_ops, double step_seconds) {
  switch (at.doing) {
    case Doing::meeting:
      return "waiting for the other ranks";
    case Doing::preparing:
      return "drawing weights";
    case Doing::loading:
      return "reading weights";
    case Doing::resuming:
      return "reading the checkpoint";
    case Doing::joining:
      return "waiting to be let in";
    case Doing::reading_data:
      return "reading data";
    case Doing::computing:
    case Doing::communicating:
    case Doing::sending:
      break;
    default:
      return "starting";
  }
  const auto done = static_cast<double>(at.op);
  const std::string left =
      done > 0 ? cat(", about ", duration_text(step_seconds * (static_cast<double>(num_ops) - done) / done),
                     " left")
               : "";
  return cat("step ", at.step, ": op ", at.op + 1, " of ", num_ops, left);
}

FirstStep::FirstStep(const ActivityLog* log)
    : FirstStep(log, 0,
                [is_live = is_live_terminal(STDERR_FILENO),
                 err = std::make_shared<QueuedWriter>(QueuedWriter::Options{.descriptor = STDERR_FILENO})](
                    const std::string& text) {
                  err->write(cat(is_live ? "\r\x1b[K" : "", text, is_live ? "" : "\n"));
                  err->wait(kStoppedSeconds);
                }) {}

FirstStep::FirstStep(const ActivityLog* log, std::size_t num_ops,
                     std::function<void(const std::string&)> tell)
    : log_(log),
      num_ops_(num_ops),
      tell_(std::move(tell)),
      is_live_(is_live_terminal(num_ops == 0 ? STDERR_FILENO : STDOUT_FILENO)),
      begin_seconds_(now_seconds()),
      next_seconds_(begin_seconds_ + (is_live_ ? kLiveSeconds : kLinesSeconds)) {
  if (log) thread_ = std::thread([this] { run(); });
}

FirstStep::~FirstStep() { end(); }

void FirstStep::end() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ending_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (std::exchange(has_told_, false) && is_live_) tell_("");
}

void FirstStep::run() {
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, kLook, [this] { return is_over_; }))
    if (const double now = now_seconds(); now >= next_seconds_) report(now);
}

void FirstStep::report(double now) {
  const RankState state = log_->state();
  if (!state.now()) return;
  const double seconds = now - begin_seconds_;
  tell_(cat(progress_text(*state.now(), num_ops_, seconds), " (", duration_text(seconds), " so far)"));
  has_told_ = true;
  next_seconds_ = is_live_ ? now + kLiveSeconds : begin_seconds_ + 2 * seconds;
}

}  // namespace tessera::metrics
