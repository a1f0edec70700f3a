// Text for a reader who may take nothing: a pipe that nobody reads, a terminal stopped by Ctrl-S. It is
// written by a thread of its own, so that whoever writes goes on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace tessera {

class QueuedWriter {
 public:
  struct Options {
    int descriptor = 1;
    std::size_t most_bytes = 16 << 20;  // that wait; the oldest go first
    double blocked_after_seconds =
        0;  // `on_blocked` is called when the reader has taken nothing for so long; 0: never
    std::function<void()> on_blocked;  // on the thread of the writer, once until the reader takes something
  };
  explicit QueuedWriter(Options options);
  // What is left is not written; wait before.
  ~QueuedWriter();
  QueuedWriter(const QueuedWriter&) = delete;
  QueuedWriter& operator=(const QueuedWriter&) = delete;

  // Never waits.
  void write(std::string text);
  // Returns when all is written, or the reader has taken nothing for this long; whether all is.
  bool wait(double patience_seconds);
  // Of the texts that went because too many waited.
  std::size_t num_dropped() const;

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;  // the thread's too: it may be stuck in a write when this goes
};

}  // namespace tessera
