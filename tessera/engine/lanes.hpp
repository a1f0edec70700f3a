// The lanes that run a rank's ops. The compute lane is the calling thread; each other lane is a thread of its
// own that goes through its ops in order. On an accelerator a lane is a stream too, its thread's: a thread
// waits until the other op has been issued, its stream until that op's event.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/base/process/activity.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::engine {

// Thrown on a lane whose work can't go on because another lane failed; the other lane's error is the one to
// report.
struct LaneStopped {};

class Lanes {
 public:
  // `run(op, step)` executes the op with that index; it is called from the op's lane, after its waits. What
  // each lane is at is written to `log`, if there is one.
  using Run = std::function<void(std::uint32_t op, std::uint64_t step)>;
  Lanes(const program::Sequence& sequence, const program::Tables& tables, Run run, ActivityLog* log,
        c10::Device device = c10::kCPU);
  ~Lanes();

  // Begins the next step and runs its compute lane: returns when that is through, while other lanes may be at
  // work. Rethrows the first error of any lane; after that the object is unusable. `is_followed`: another
  // step is sure to be begun after it, and what of that one can run meanwhile does.
  void begin(bool is_followed = false);
  // Returns when all ops of the step of that number, counted from 1, are through; of the last one that was
  // begun, but for gathers and reductions that nothing waits for.
  void finish(std::uint64_t step);

 private:
  void make_events(c10::Device device);
  void queue_communication();
  void order_compute();
  void run_compute_lane(std::uint64_t step, bool is_followed);
  void run_lane(std::size_t lane, std::uint64_t step);
  void run_op(std::size_t lane, std::uint32_t op, std::uint64_t step);
  std::uint32_t wait_for(std::uint32_t wait, std::uint64_t step);
  void stop(std::exception_ptr error);
  template <typename Work>
  void guarded(Work work);

  static constexpr std::uint32_t kNobody = 0xffff'ffffu;  // in queue_before_: the op does not queue

  const program::Sequence& sequence_;
  const program::Tables& tables_;
  Run run_;
  ActivityLog* log_;
  std::vector<program::Follower> compute_order_;         // of the compute lane, with forwards ahead
  std::vector<std::uint32_t> ahead_;                     // these alone: see Note [Forwards ahead]
  std::vector<std::vector<std::uint32_t>> ops_of_lane_;  // of the others; the first is empty
  // Where an accelerator has got past all that was done between the steps; null on a CPU.
  std::unique_ptr<tensor::Event> step_begins_;
  // Per op: where an accelerator has got past it, if another lane or the end of the step waits for that;
  // empty on a CPU.
  std::vector<std::unique_ptr<tensor::Event>> events_;
  // Per op that communicates: the wait for the one before it; empty on a CPU. See Note [One queue on a
  // device].
  std::vector<std::uint32_t> queue_before_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> done_;  // per op: the last step it finished
  std::atomic<std::uint64_t> step_ = 0;                 // that lanes may be at
  std::uint64_t begun_ = 0;                             // that the compute lane is at
  std::atomic<bool> stopped_ = false;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::engine
