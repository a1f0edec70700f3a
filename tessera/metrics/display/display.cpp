#include "tessera/metrics/display/display.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"
#include "tessera/metrics/display/terminal.hpp"

namespace tessera::metrics {

namespace {

constexpr std::chrono::milliseconds kLeastBetween{125};
constexpr double kMostBetweenSeconds = 1;  // clocks on the frame tick
constexpr double kPatienceSeconds = 1;     // at the end, for a terminal that takes nothing

// One that never blocks. An open file of its own: the flag would reach every program that shares the given
// one.
int opened_again(int descriptor) {
  const int again =
      ::open(cat("/proc/self/fd/", descriptor).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return again >= 0 ? again : ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

// Back to the first line of the frame. A terminal made narrower has broken long lines into several.
std::string back_to_top(const std::vector<int>& widths, int columns) {
  int rows = 0;
  for (const int width : widths) rows += std::max(1, (width + columns - 1) / columns);
  return rows > 0 ? cat("\r\x1b[", rows, "A") : "";
}

}  // namespace

Display::Display(const RunTitle& title, int descriptor)
    : descriptor_(opened_again(descriptor)),
      begin_seconds_(now_seconds()),
      watched_{.title = title},
      step_end_seconds_(begin_seconds_),
      thread_([this] { run(); }) {}

Display::~Display() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  patience_end_seconds_ = now_seconds() + kPatienceSeconds;
  ending_.notify_all();
  thread_.join();
  std::unique_lock lock(mutex_);
  const bool done = watched_.last && watched_.last->step == watched_.title.steps;
  watched_.ending = cat(done ? "done in " : "stopped at ", duration_text(now_seconds() - begin_seconds_));
  draw(lock);
  ::close(descriptor_);
}

void Display::update(const StepFacts& facts) {
  const std::lock_guard lock(mutex_);
  watched_.last = facts;
  watched_.losses.push_back(facts.loss);
  step_end_seconds_ = now_seconds();
  is_stale_ = true;
}

void Display::tell(const std::string& text) {
  const std::lock_guard lock(mutex_);
  watched_.note = text;
  is_stale_ = true;
}

bool Display::is_due() const {
  const Canvas now = canvas_of(descriptor_);
  return is_stale_ || now.width != canvas_.width || now.height != canvas_.height ||
         now_seconds() - drawn_seconds_ >= kMostBetweenSeconds;
}

void Display::run() {
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    if (is_due()) draw(lock);
    ending_.wait_for(lock, kLeastBetween, [this] { return is_ending_; });
  }
}

void Display::draw(std::unique_lock<std::mutex>& lock) {
  drawn_seconds_ = now_seconds();
  is_stale_ = false;
  watched_.since_step_seconds = drawn_seconds_ - step_end_seconds_;
  canvas_ = canvas_of(descriptor_);
  std::string bytes = back_to_top(drawn_widths_, canvas_.width);
  drawn_widths_.clear();
  for (const StyledLine& line : frame(watched_, canvas_)) {
    // Erased first: erasing after a line that fills the row would take its last character.
    bytes += cat("\x1b[2K", line.rendered(canvas_.width, canvas_.colours), "\n");
    drawn_widths_.push_back(std::min(line.width(), canvas_.width));
  }
  bytes += "\x1b[J";
  lock.unlock();
  write_all(bytes);
  lock.lock();
}

void Display::write_all(std::string_view bytes) const {
  constexpr int kSliceMilliseconds = 50;
  while (!bytes.empty() && now_seconds() < patience_end_seconds_) {
    pollfd terminal{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    if (::poll(&terminal, 1, kSliceMilliseconds) <= 0) continue;  // stopped (Ctrl-S), or slow
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return;  // nobody looks any more: that is no reason to end a run
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace tessera::metrics
