#include "tessera/base/files/queued_writer.hpp"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tessera/base/clock.hpp"

namespace tessera {

struct QueuedWriter::Queue {
  const Options options;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> texts;  // the first is being written
  std::size_t bytes = 0, num_dropped = 0;
  double progress_seconds = now_seconds();  // when the reader last took something, or nothing was left for it
  bool is_told = false;                     // that it takes nothing
  bool is_ending = false;

  explicit Queue(Options given) : options(std::move(given)) {}

  // Where the reader takes nothing, comes back now and then to see whether anybody still wants it.
  bool is_ready() const {
    constexpr int kSliceMilliseconds = 50;
    pollfd reader{.fd = options.descriptor, .events = POLLOUT, .revents = 0};
    return poll(&reader, 1, kSliceMilliseconds) != 0;
  }

  void tell_if_blocked(std::unique_lock<std::mutex>& lock) {
    if (is_told || options.blocked_after_seconds <= 0 || !options.on_blocked ||
        now_seconds() - progress_seconds < options.blocked_after_seconds)
      return;
    is_told = true;
    lock.unlock();
    options.on_blocked();
    lock.lock();
  }

  void take(std::size_t count) {
    progress_seconds = now_seconds();
    is_told = false;
    texts.front().erase(0, count);
    bytes -= count;
    if (texts.front().empty()) texts.pop_front();
    changed.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return is_ending || !texts.empty(); });
      if (is_ending) return;
      // No more than a pipe with any room takes at once.
      const std::string part = texts.front().substr(0, PIPE_BUF);
      lock.unlock();
      const bool ready = is_ready();
      const ssize_t count = ready ? ::write(options.descriptor, part.data(), part.size()) : -1;
      const int error = ready && count < 0 ? errno : EAGAIN;
      lock.lock();
      if (count >= 0)
        take(static_cast<std::size_t>(count));
      else if (error == EAGAIN || error == EINTR)
        tell_if_blocked(lock);
      else
        take(texts.front().size());  // nobody looks any more, or the disk is full: no reason to end a run
    }
  }
};

QueuedWriter::QueuedWriter(Options options) : queue_(std::make_shared<Queue>(std::move(options))) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([queue = queue_] { queue->run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

QueuedWriter::~QueuedWriter() {
  const std::scoped_lock lock(queue_->mutex);
  queue_->is_ending = true;
  queue_->changed.notify_all();
}

void QueuedWriter::write(std::string text) {
  if (text.empty()) return;
  const std::scoped_lock lock(queue_->mutex);
  if (queue_->texts.empty()) queue_->progress_seconds = now_seconds();
  queue_->bytes += text.size();
  queue_->texts.push_back(std::move(text));
  // Not the one that may be half written.
  while (queue_->bytes > queue_->options.most_bytes && queue_->texts.size() > 2) {
    queue_->bytes -= queue_->texts[1].size();
    queue_->texts.erase(queue_->texts.begin() + 1);
    ++queue_->num_dropped;
  }
  queue_->changed.notify_all();
}

bool QueuedWriter::wait(double patience_seconds) {
  constexpr std::chrono::milliseconds kLook{20};
  std::unique_lock lock(queue_->mutex);
  const double since = now_seconds();
  while (!queue_->texts.empty()) {
    if (now_seconds() - std::max(since, queue_->progress_seconds) >= patience_seconds) return false;
    queue_->changed.wait_for(lock, kLook);
  }
  return true;
}

std::size_t QueuedWriter::num_dropped() const {
  const std::scoped_lock lock(queue_->mutex);
  return queue_->num_dropped;
}

}  // namespace tessera
