#include "tessera/engine/lanes.hpp"

#include <limits>
#include <map>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/tensor/told.hpp"

namespace tessera::engine {

namespace {
constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

// Ops of other lanes that a step is not over without: they use what the step was given.
bool ends_step(program::What what) {
  return what == program::What::sum || what == program::What::send || what == program::What::receive;
}

}  // namespace

Lanes::Lanes(const program::Sequence& sequence, std::function<void(std::uint32_t)> run, ActivityLog* log,
             c10::Device device)
    : sequence_(sequence),
      run_(std::move(run)),
      log_(log),
      done_(std::make_unique<std::atomic<std::uint64_t>[]>(sequence.ops.size())) {
  std::map<program::Lane, std::size_t> index = {{program::kCompute, 0}};
  ops_of_lane_.resize(1);
  for (std::uint32_t i = 0; i < sequence.ops.size(); ++i) {
    const auto [lane, is_new] = index.try_emplace(sequence.ops[i].lane, ops_of_lane_.size());
    if (is_new) ops_of_lane_.emplace_back();
    if (is_new && log_) log_->name_lane(lane->second, lane->first.axes, lane->first.direction);
    ops_of_lane_[lane->second].push_back(i);
  }
  if (!device.is_cpu()) make_events(device);
  for (std::size_t lane = 1; lane < ops_of_lane_.size(); ++lane)
    threads_.emplace_back([this, lane, device] {
      tensor::set_threads(1);
      tensor::use_own_stream(device);
      const at::NoGradGuard no_gradient;
      for (std::uint64_t step = 1; !stopped_; ++step) {
        for (auto now = step_.load(); now < step && !stopped_; now = step_.load()) step_.wait(now);
        try {
          if (!stopped_) run_lane(lane, step);
        } catch (const LaneStopped&) {
        } catch (...) {
          stop(std::current_exception());
        }
      }
    });
}

// Ops of one lane follow each other on its stream; only what another lane waits for needs an event. Streams can't wait in
// a circle: a wait is given to a stream only after the event it names was recorded.
void Lanes::make_events(c10::Device device) {
  events_.resize(sequence_.ops.size());
  for (const auto& op : sequence_.ops)
    for (const std::uint32_t wait : sequence_.waits_of(op)) {
      const std::uint32_t other = wait & ~program::kPreviousStep;
      if (sequence_.ops[other].lane != op.lane && !events_[other])
        events_[other] = std::make_unique<tensor::Event>(device);
    }
}

Lanes::~Lanes() {
  stop(nullptr);
  for (auto& thread : threads_) thread.join();
}

void Lanes::step() {
  CHECK(!stopped_, "a step after one that failed");
  const std::uint64_t step = ++step_;
  step_.notify_all();
  try {
    run_lane(0, step);
    for (std::uint32_t i = 0; i < sequence_.ops.size(); ++i)
      if (ends_step(sequence_.ops[i].what)) wait_for(i, step);
  } catch (const LaneStopped&) {
    const std::scoped_lock lock(error_mutex_);
    std::rethrow_exception(error_);
  } catch (...) {
    stop(std::current_exception());
    throw;
  }
}

void Lanes::run_lane(std::size_t lane, std::uint64_t step) {
  for (const std::uint32_t i : ops_of_lane_[lane]) {
    if (log_) {
      const bool meets_others = sequence_.ops[i].along >= 0;
      log_->issue(lane, meets_others ? Doing::communicating : Doing::computing, static_cast<std::int32_t>(i),
                  static_cast<std::int64_t>(step), now_seconds());
    }
    for (const std::uint32_t wait : sequence_.waits_of(sequence_.ops[i])) {
      const bool previous = wait & program::kPreviousStep;
      const std::uint32_t other = wait & ~program::kPreviousStep;
      wait_for(other, previous ? step - 1 : step);
      if (!events_.empty() && sequence_.ops[other].lane != sequence_.ops[i].lane) events_[other]->wait();
    }
    if (stopped_) throw LaneStopped{};
    if (log_) log_->start(lane, now_seconds());
    run_(i);
    if (log_) log_->end(lane, now_seconds());
    if (!events_.empty() && events_[i]) events_[i]->record();
    // Only upwards: stop() may have released the waiters of this op for good meanwhile.
    std::uint64_t before = done_[i].load();
    while (before < step && !done_[i].compare_exchange_weak(before, step, std::memory_order_release)) {
    }
    done_[i].notify_all();
  }
}

void Lanes::wait_for(std::uint32_t op, std::uint64_t step) {
  for (auto now = done_[op].load(std::memory_order_acquire); now < step;
       now = done_[op].load(std::memory_order_acquire))
    done_[op].wait(now);
  if (stopped_) throw LaneStopped{};
}

void Lanes::stop(std::exception_ptr error) {
  {
    const std::scoped_lock lock(error_mutex_);
    if (stopped_) return;
    error_ = error;
    stopped_ = true;
  }
  // Now, not when the stack is unwound: that may wait for a lane that waits for a peer.
  if (error && log_) {
    const auto told = tensor::told(error);
    log_->fail(told.text, told.exit_code);
  }
  for (std::size_t i = 0; i < sequence_.ops.size(); ++i) {
    done_[i].store(kForever);
    done_[i].notify_all();
  }
  step_.store(kForever);
  step_.notify_all();
}

}  // namespace tessera::engine
