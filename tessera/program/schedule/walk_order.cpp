#include "tessera/program/schedule/walk_order.hpp"

#include <algorithm>
#include <queue>
#include <span>
#include <tuple>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::program {
namespace {

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

bool makes_input_gradient(OpKind what) { return what == OpKind::backward || what == OpKind::backward_input; }

class OrderWalk {
 public:
  OrderWalk(const Order& order, const Costs& costs, const WalkOptions& options)
      : order_(order),
        costs_(costs),
        ahead_(std::max(options.receives_ahead, 1u)),
        num_stages_(static_cast<std::uint32_t>(order.rank_of_stage.size())),
        ranks_(order.ranks.size()) {
    TESSERA_CHECK(costs.stages.size() == num_stages_, "costs of ", costs.stages.size(), " stages for ",
                  num_stages_);
    const std::size_t size = std::size_t{num_stages_} * static_cast<std::size_t>(order.num_micro);
    forward_at_.assign(size, kNever);
    backward_at_.assign(size, kNever);
    has_value_.assign(size, false);
    has_gradient_.assign(size, false);
    ran_.assign(size, 0);
    out_.tasks.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& tasks = order.ranks[rank];
      out_.tasks[rank].resize(tasks.size());
      for (std::uint32_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i].what == OpKind::forward) forward_at_[index(tasks[i])] = i;
        if (makes_input_gradient(tasks[i].what)) backward_at_[index(tasks[i])] = i;
      }
    }
    out_.transfers.reserve(2 * size);
    for (const auto& tasks : order.ranks)
      out_.with_next.push_back(options.in_pairs ? pairs(tasks) : std::vector<bool>(tasks.size()));
  }

  Walk run() {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) start(rank);
    do {
      while (!events_.empty()) {
        const Event event = events_.top();
        events_.pop();
        now_ = event.time;
        if (event.is_transfer)
          arrive(out_.transfers[event.item]);
        else
          finish(event.item);
      }
    } while (part_a_pair());
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) tell_if_stuck(rank);
    return std::move(out_);
  }

 private:
  struct Event {
    double time;
    std::uint64_t number;  // events of one time keep the order in which they were made
    bool is_transfer;
    std::uint32_t item;  // rank or transfer
    bool operator<(const Event& other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };
  // Made, not yet on its way: the receiver takes the one it needs first.
  struct Waiting {
    std::uint32_t needed_at;
    Task made_by;
    bool operator<(const Waiting& other) const { return needed_at > other.needed_at; }
  };
  struct Rank {
    std::uint32_t next = 0;       // task
    std::uint32_t running = 0;    // tasks before it that have started and not ended
    std::uint32_t num_ahead = 0;  // received for tasks that have not started
    std::uint32_t last_slot = 0;
    double sends_until[2] = {}, receives_until[2] = {};  // values, gradients
    std::priority_queue<Waiting> waiting;
  };
  enum Ran : std::uint8_t { kForward = 1, kInput = 2 };

  std::size_t index(std::uint32_t stage, std::int32_t micro) const {
    return std::size_t{stage} * static_cast<std::size_t>(order_.num_micro) + static_cast<std::size_t>(micro);
  }
  std::size_t index(const Task& task) const { return index(task.stage, task.micro); }

  void push(double time, bool is_transfer, std::uint32_t item) {
    events_.push({time, num_events_++, is_transfer, item});
  }

  // Whether another rank makes what the task needs.
  bool is_fed(const Task& task) const {
    const std::uint32_t rank = order_.rank_of_stage[task.stage];
    if (task.what == OpKind::forward) return task.stage > 0 && order_.rank_of_stage[task.stage - 1] != rank;
    return makes_input_gradient(task.what) && task.stage + 1 < num_stages_ &&
           order_.rank_of_stage[task.stage + 1] != rank;
  }

  bool can_start(const Task& task) const {
    const std::size_t at = index(task);
    if (task.what == OpKind::forward) return task.stage == 0 || has_value_[at];
    if (task.what == OpKind::backward_weight) return ran_[at] & kInput;
    return (ran_[at] & kForward) && (task.stage + 1 == num_stages_ || has_gradient_[at]);
  }

  // A forward is paired with the backward behind it or, if there is none that could be, with the one before.
  static std::vector<bool> pairs(const std::vector<Task>& tasks) {
    const auto fit = [&](std::size_t forward, std::size_t backward) {
      return tasks[forward].what == OpKind::forward && tasks[backward].what == OpKind::backward &&
             tasks[forward].micro != tasks[backward].micro;
    };
    std::vector<bool> out(tasks.size());
    for (std::size_t i = 0; i + 1 < tasks.size(); ++i) {
      out[i] = fit(i, i + 1) || (fit(i + 1, i) && !(i + 2 < tasks.size() && fit(i + 1, i + 2)));
      if (out[i]) ++i;
    }
    return out;
  }

  // The next tasks of a rank: one or a pair.
  std::span<const Task> head(std::uint32_t rank) const {
    const std::uint32_t next = ranks_[rank].next;
    if (next == order_.ranks[rank].size()) return {};
    return std::span(order_.ranks[rank]).subspan(next, out_.with_next[rank][next] ? 2 : 1);
  }

  void start(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    const auto tasks = head(rank);
    if (r.running > 0 || tasks.empty()) return;
    double seconds = 0;
    for (const Task& task : tasks) {
      if (!can_start(task)) return;
      seconds += seconds_of(task, costs_);
    }
    for (const Task& task : tasks) {
      out_.tasks[rank][r.next++] = {now_, now_ + seconds};
      if (is_fed(task)) --r.num_ahead;
    }
    r.running = static_cast<std::uint32_t>(tasks.size());
    push(now_ + seconds, false, rank);
    admit(rank);
  }

  // When nothing is under way: a pair whose first task could start alone does so.
  bool part_a_pair() {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto tasks = head(rank);
      if (tasks.size() < 2 || !can_start(tasks[0])) continue;
      out_.with_next[rank][ranks_[rank].next] = false;
      start(rank);
      return true;
    }
    return false;
  }

  void finish(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    out_.makespan = std::max(out_.makespan, now_);
    const auto ended = std::span(order_.ranks[rank]).subspan(r.next - r.running, r.running);
    r.running = 0;
    for (const Task& task : ended) hand_over(task);
    start(rank);
  }

  void hand_over(const Task& task) {
    if (task.what == OpKind::forward) {
      ran_[index(task)] |= kForward;
      if (task.stage + 1 < num_stages_) hand_over(task, task.stage + 1, has_value_, forward_at_);
    } else if (makes_input_gradient(task.what)) {
      ran_[index(task)] |= kInput;
      if (task.stage > 0) hand_over(task, task.stage - 1, has_gradient_, backward_at_);
    }
  }

  void hand_over(const Task& task, std::uint32_t to_stage, std::vector<bool>& is_there,
                 const std::vector<std::uint32_t>& needed_at) {
    const std::uint32_t to = order_.rank_of_stage[to_stage];
    const std::size_t at = index(to_stage, task.micro);
    if (to == order_.rank_of_stage[task.stage]) {
      is_there[at] = true;
      return;
    }
    ranks_[to].waiting.push({needed_at[at], task});
    admit(to);
  }

  void admit(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    while (!r.waiting.empty()) {
      const Waiting first = r.waiting.top();
      if (r.num_ahead >= ahead_ && first.needed_at >= r.next + std::max<std::size_t>(head(rank).size(), 1))
        return;
      r.waiting.pop();
      ++r.num_ahead;
      transfer(first.made_by, rank);
    }
  }

  void transfer(const Task& made_by, std::uint32_t to) {
    Rank &sender = ranks_[order_.rank_of_stage[made_by.stage]], &receiver = ranks_[to];
    Transfer t{
        .is_gradient = made_by.what != OpKind::forward, .stage = made_by.stage, .micro = made_by.micro};
    // While a task runs, a receive can be posted beside it; but never before what was posted earlier.
    t.posted_after = receiver.next - receiver.running;
    receiver.last_slot = t.receiver_slot = std::max(receiver.last_slot, t.posted_after);
    sender.last_slot = t.sender_slot = sender.next;
    double &out = sender.sends_until[t.is_gradient], &in = receiver.receives_until[t.is_gradient];
    t.span.start = std::max({now_, out, in});
    out = in = t.span.end = t.span.start + costs_.transfer;
    out_.transfers.push_back(t);
    if (t.span.end > now_)
      push(t.span.end, true, static_cast<std::uint32_t>(out_.transfers.size() - 1));
    else
      arrive(out_.transfers.back());
  }

  void arrive(const Transfer t) {
    const std::uint32_t to_stage = t.is_gradient ? t.stage - 1 : t.stage + 1;
    (t.is_gradient ? has_gradient_ : has_value_)[index(to_stage, t.micro)] = true;
    start(order_.rank_of_stage[to_stage]);
  }

  void tell_if_stuck(std::uint32_t rank) {
    const auto& tasks = order_.ranks[rank];
    if (ranks_[rank].next == tasks.size()) return;
    const Task& task = tasks[ranks_[rank].next];
    std::string needs;
    if (task.what == OpKind::backward_weight) {
      needs = word({OpKind::backward_input, task.stage, task.micro});
    } else if (task.what == OpKind::forward) {
      needs = word({OpKind::forward, task.stage - 1, task.micro});
    } else if (!(ran_[index(task)] & kForward)) {
      needs = word({OpKind::forward, task.stage, task.micro});
    } else {
      needs = cat("the gradient of stage ", task.stage + 1);
    }
    out_.stuck += cat(out_.stuck.empty() ? "" : ", ", "rank ", rank, " stands before ", word(task),
                      ", which needs ", needs);
  }

  const Order& order_;
  const Costs& costs_;
  const std::uint32_t ahead_, num_stages_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> forward_at_,
      backward_at_;                             // per stage and micro-batch: place in its rank's tasks
  std::vector<bool> has_value_, has_gradient_;  // per stage and micro-batch: what it needs is there
  std::vector<std::uint8_t> ran_;
  std::priority_queue<Event> events_;
  std::uint64_t num_events_ = 0;
  double now_ = 0;
  Walk out_;
};

}  // namespace

Walk walk(const Order& order, const Costs& costs, const WalkOptions& options) {
  return OrderWalk(order, costs, options).run();
}

}  // namespace tessera::program
