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

// One step of a run, or what comes before it.
class FirstStep {
 public:
  // Before there are other outputs: on standard error, in place on a terminal, else a line now and then.
  // Nothing is reported if `log` is null.
  explicit FirstStep(const ActivityLog* log);
  // A step of `num_ops` ops. A thread calls `tell`: each second if standard output is a live display, which
  // is given an empty text at the end.
  FirstStep(const ActivityLog* log, std::size_t num_ops, std::function<void(const std::string&)> tell);
  // As end().
  ~FirstStep();
  FirstStep(const FirstStep&) = delete;
  FirstStep& operator=(const FirstStep&) = delete;

  // Nothing is reported after it.
  void end();

 private:
  void run();
  void report(double now);

  const ActivityLog* log_;
  const std::size_t num_ops_;
  const std::function<void(const std::string&)> tell_;
  const bool is_live_;
  const double begin_seconds_;
  double next_seconds_;
  bool has_told_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable ending_;
  bool is_over_ = false;
  std::thread thread_;  // last: it uses everything above
};

// "reading weights", "step 1: op 210 of 840, about 30 s left".
std::string progress_text(const Activity& at, std::size_t num_ops, double step_seconds);

}  // namespace tessera::metrics
