// Reports what rank 0 is doing until its first step has ended, where that takes long: reading many
// gigabytes of weights, a step of minutes.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tessera/base/process/activity.hpp"

namespace tessera::metrics {

class FirstStep {
 public:
  // Until begin() it writes to standard error: in place on a terminal, else a line now and then. Nothing is
  // reported if `log` is null.
  explicit FirstStep(const ActivityLog* log);
  ~FirstStep();
  FirstStep(const FirstStep&) = delete;
  FirstStep& operator=(const FirstStep&) = delete;

  // The step has `num_ops` ops. From now on another thread calls `tell`, each second if the display is live.
  void begin(std::size_t num_ops, std::function<void(const std::string&)> tell);
  // No word after it.
  void end();

 private:
  void run();
  void speak(double now);

  const ActivityLog* log_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable ending_;
  bool is_over_ = false, has_drawn_ = false;
  std::size_t num_ops_ = 0;
  std::function<void(const std::string&)> tell_;
  double begin_seconds_, next_seconds_, step_begin_seconds_ = 0;
  std::thread thread_;  // last: it uses everything above
};

// "reading weights", "step 1: op 210 of 840, about 30 s left".
std::string progress_text(const Activity& at, std::size_t num_ops, double step_seconds);

}  // namespace tessera::metrics
