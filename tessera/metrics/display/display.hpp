// The live display: a frame that is drawn in place, at most eight times a second, by a thread of its own: a
// terminal that stands still doesn't stop the training.
//
// The cursor is never hidden and always rests below the frame, so that nothing needs to be restored, however
// the process ends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/metrics/display/frame.hpp"

namespace tessera::metrics {

class Display {
 public:
  Display(const RunTitle& title, int descriptor);
  // Draws a last frame, which stays. Waits no longer than a second for a terminal that takes nothing.
  ~Display();
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  void update(const StepFacts& facts);
  // Shown below the frame until the next.
  void tell(const std::string& text);

 private:
  void run();
  void draw(std::unique_lock<std::mutex>& lock);
  bool is_due() const;
  void write_all(std::string_view bytes) const;

  const int descriptor_;  // its own open file of the terminal
  const double begin_seconds_;
  std::atomic<double> patience_end_seconds_ =
      std::numeric_limits<double>::infinity();  // for a stopped terminal
  std::mutex mutex_;                            // of all that follows
  std::condition_variable ending_;
  Watched watched_;
  double step_end_seconds_;
  double drawn_seconds_ = 0;
  bool is_stale_ = true;
  bool is_ending_ = false;
  Canvas canvas_;
  std::vector<int> drawn_widths_;  // of the lines on the screen
  std::thread thread_;             // last: it uses everything above
};

}  // namespace tessera::metrics
