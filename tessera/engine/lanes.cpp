#include "tessera/engine/lanes.hpp"

#include <limits>
#include <map>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/tensor/account.hpp"
#include "tessera/tensor/named_range.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/tensor/told.hpp"

namespace tessera::engine {

namespace {
constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

// Whether a step is not over without it, on whichever lane: it uses what the step was given, or moves or
// changes what others look at between steps. Gathers and reductions are waited for by whoever uses what they
// make; but workers use what servers give.
bool ends_step(const program::Op& op) {
  if (op.flags & program::kOfServer) return true;
  return op.what != program::OpKind::gather && op.what != program::OpKind::reduce;
}

// Whether what it makes or puts away is looked at between steps, from the compute lane's stream.
bool is_looked_at(const program::Op& op) {
  if (op.what == program::OpKind::offload)
    return !(op.flags & program::kUnchanged) && program::named_cell(op).kind != program::CellKind::value;
  return op.what == program::OpKind::sum || op.what == program::OpKind::step;
}

}  // namespace

Lanes::Lanes(const program::Sequence& sequence, const program::Tables& tables, Run run, ActivityLog* log,
             c10::Device device)
    : sequence_(sequence),
      tables_(tables),
      run_(std::move(run)),
      log_(log),
      done_(std::make_unique<std::atomic<std::uint64_t>[]>(sequence.ops.size())) {
  order_compute();
  std::map<program::Lane, std::size_t> index;
  ops_of_lane_.resize(1);
  for (std::uint32_t i = 0; i < sequence.ops.size(); ++i) {
    if (sequence.ops[i].lane.kind == program::LaneKind::compute) continue;
    const auto [lane, is_new] = index.try_emplace(sequence.ops[i].lane, ops_of_lane_.size());
    if (is_new) ops_of_lane_.emplace_back();
    if (is_new && log_) log_->name_lane(lane->second, lane->first.axes, lane->first.direction);
    ops_of_lane_[lane->second].push_back(i);
  }
  if (!device.is_cpu()) {
    step_begins_ = std::make_unique<tensor::Event>(device);
    make_events(device);
    queue_communication();
  }
  for (std::size_t lane = 1; lane < ops_of_lane_.size(); ++lane)
    threads_.emplace_back([this, lane, device, account = tensor::Account::current()] {
      const tensor::AccountScope of_rank(account);
      tensor::set_threads(1);
      tensor::use_own_stream(device);
      const at::NoGradGuard no_gradient;
      for (std::uint64_t step = 1; !stopped_; ++step) {
        for (auto now = step_.load(); now < step && !stopped_; now = step_.load()) step_.wait(now);
        try {
          if (!stopped_ && step_begins_) step_begins_->wait();
          if (!stopped_) run_lane(lane, step);
        } catch (const LaneStopped&) {
        } catch (...) {
          stop(std::current_exception());
        }
      }
    });
}

// Ops of one lane follow each other on its stream. Events are for what another lane waits for, for what is
// looked at after the step, and for what the caller did before it, such as loading parameters, which no op
// knows. Streams can't wait in a circle: a wait is given to a stream only after the event it names was
// recorded.
void Lanes::make_events(c10::Device device) {
  events_.resize(sequence_.ops.size());
  for (std::size_t i = 0; i < sequence_.ops.size(); ++i)
    if (is_looked_at(sequence_.ops[i])) events_[i] = std::make_unique<tensor::Event>(device);
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

void Lanes::begin(bool is_followed) {
  TESSERA_CHECK(!stopped_, "a step after one that failed");
  if (step_begins_) step_begins_->record();
  const std::uint64_t step = ++begun_;
  step_ = step + (is_followed ? 1 : 0);
  step_.notify_all();
  guarded([&] { run_compute_lane(step, is_followed); });
}

void Lanes::finish(std::uint64_t step) {
  guarded([&] {
    const bool is_last = step == begun_;
    for (std::uint32_t i = 0; i < sequence_.ops.size(); ++i) {
      if (!is_last || ends_step(sequence_.ops[i])) wait_for(i, step);
      if (!events_.empty() && is_looked_at(sequence_.ops[i])) events_[i]->wait();
    }
  });
}

template <typename Work>
void Lanes::guarded(Work work) {
  try {
    work();
  } catch (const LaneStopped&) {
    const std::scoped_lock lock(error_mutex_);
    std::rethrow_exception(error_);
  } catch (...) {
    stop(std::current_exception());
    throw;
  }
}

void Lanes::run_lane(std::size_t lane, std::uint64_t step) {
  for (const std::uint32_t op : ops_of_lane_[lane]) run_op(lane, op, step);
}

void Lanes::run_op(std::size_t lane, std::uint32_t i, std::uint64_t step) {
  const tensor::NamedRange range([&] { return program::word(sequence_.ops[i], tables_); });
  if (log_) {
    const bool meets_others = sequence_.ops[i].along >= 0;
    log_->issue(lane, meets_others ? Doing::communicating : Doing::computing, static_cast<std::int32_t>(i),
                static_cast<std::int64_t>(step), now_seconds());
  }
  for (const std::uint32_t wait : sequence_.waits_of(sequence_.ops[i])) {
    const std::uint32_t other = wait_for(wait, step);
    if (!events_.empty() && sequence_.ops[other].lane != sequence_.ops[i].lane) events_[other]->wait();
  }
  if (!queue_before_.empty() && queue_before_[i] != kNobody) wait_for(queue_before_[i], step);
  if (stopped_) throw LaneStopped{};
  if (log_) log_->start(lane, now_seconds());
  run_(i, step);
  if (log_) log_->end(lane, now_seconds());
  if (!events_.empty() && events_[i]) events_[i]->record();
  // Only upwards: stop() may have released the waiters of this op for good meanwhile.
  std::uint64_t before = done_[i].load();
  while (before < step && !done_[i].compare_exchange_weak(before, step, std::memory_order_release)) {
  }
  done_[i].notify_all();
}

// Returns the op that was waited for.
std::uint32_t Lanes::wait_for(std::uint32_t wait, std::uint64_t step) {
  const std::uint32_t op = wait & ~program::kPreviousStep;
  const std::uint64_t of_step = wait & program::kPreviousStep ? step - 1 : step;
  for (auto now = done_[op].load(std::memory_order_acquire); now < of_step;
       now = done_[op].load(std::memory_order_acquire))
    done_[op].wait(now);
  if (stopped_) throw LaneStopped{};
  return op;
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
