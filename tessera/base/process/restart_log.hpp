// Restarts of a job and the time they have cost. Lies in zeroed memory that a launcher shares with its ranks,
// so what one start writes is there in the next.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace tessera {

class RestartLog {
 public:
  // The launcher, while no rank runs: all ranks start again. `step` is that of the newest state on the disk;
  // `is_own` says that this job has saved it.
  void restart(std::int64_t step, bool is_own);
  // One rank, once the state of this step is in its memory and again when a save takes its copy.
  void hold(std::int64_t step, double now_seconds);
  // That rank, when the checkpoint of this step is on the disk.
  void save(std::int64_t step) { saved_step_ = step; }
  // That rank, when everything is done and the summary is printed.
  void complete() { is_complete_ = true; }

  std::int64_t saved_step() const { return saved_step_; }
  std::int64_t count() const { return count_; }
  std::int64_t step() const { return step_; }
  bool is_own() const { return is_own_; }
  bool is_complete() const { return is_complete_; }
  // For each restart, the time between holding a state and holding it again: steps that are computed twice,
  // the wait and the start.
  double lost_seconds(double now_seconds) const;

 private:
  struct Held {
    std::atomic<std::int64_t> step = 0;
    std::atomic<double> seconds = 0;  // 0: nothing was held
  };

  // A save may end with the job: the state on the disk is that of the last copy or of the one before.
  std::array<Held, 2> held_;
  std::atomic<double> lost_seconds_ = 0, lost_since_seconds_ = 0;  // since 0: nothing is being lost
  std::atomic<std::int64_t> saved_step_ = 0, count_ = 0, step_ = 0;
  std::atomic<bool> is_own_ = false, is_complete_ = false;
};

}  // namespace tessera
