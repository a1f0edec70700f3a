#include "tessera/program/search/greedy.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tessera::program {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

class Greedy {
 public:
  // `skeleton`: forwards and backwards come as they do there; null: as the policy likes.
  Greedy(const Pipeline& pipeline, const std::vector<std::uint32_t>& rank_of_stage, std::int64_t limit,
         const Policy& policy, const Order* skeleton)
      : pipeline_(pipeline),
        policy_(policy),
        skeleton_(skeleton),
        ranks_(pipeline.num_ranks),
        stages_(rank_of_stage.size()) {
    order_ = {pipeline.num_micro, rank_of_stage, std::vector<std::vector<Task>>(pipeline.num_ranks)};
    const std::size_t size = rank_of_stage.size() * static_cast<std::size_t>(pipeline.num_micro);
    forward_end_.assign(size, kUnknown);
    input_end_.assign(size, kUnknown);
    for (std::uint32_t stage = 0; stage < rank_of_stage.size(); ++stage)
      ranks_[rank_of_stage[stage]].stages.push_back(stage);
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::int64_t wanted = policy.most_held + policy.more_per_rank * (pipeline.num_ranks - 1 - rank);
      ranks_[rank].room = std::min(limit, std::max<std::int64_t>(wanted, std::ssize(ranks_[rank].stages)));
      ranks_[rank].tasks_left = 3 * ranks_[rank].stages.size() * static_cast<std::size_t>(pipeline.num_micro);
    }
  }

  std::optional<Order> run() {
    for (const Rank& rank : ranks_)
      if (rank.room < std::ssize(rank.stages)) return std::nullopt;
    while (true) {
      std::uint32_t first = pipeline_.num_ranks;
      for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
        if (ranks_[rank].tasks_left > 0 && !ranks_[rank].is_blocked &&
            (first == pipeline_.num_ranks || ranks_[rank].free_at < ranks_[first].free_at))
          first = rank;
      if (first == pipeline_.num_ranks) break;
      choose(first);
    }
    for (const Rank& rank : ranks_)
      if (rank.tasks_left > 0) return std::nullopt;
    return std::move(order_);
  }

 private:
  struct Rank {
    std::vector<std::uint32_t> stages;  // ascending
    double free_at = 0;
    bool is_blocked = false;  // nothing is known to come until another rank has chosen
    std::int64_t held = 0, room = 0;
    std::size_t tasks_left = 0, next = 0;  // next: in the skeleton
    std::vector<Task> weights;             // that wait, from first_weight on
    std::size_t first_weight = 0;
  };
  struct Stage {
    std::int32_t forwards = 0, inputs = 0, weights = 0;
  };
  struct Choice {
    Task task;
    double ready = kUnknown;
  };

  std::size_t index(std::uint32_t stage, std::int32_t micro) const {
    return std::size_t{stage} * static_cast<std::size_t>(pipeline_.num_micro) +
           static_cast<std::size_t>(micro);
  }
  double arrival(double end, std::uint32_t from, std::uint32_t to) const {
    return order_.rank_of_stage[from] == order_.rank_of_stage[to] ? end : end + pipeline_.costs.transfer;
  }
  double forward_ready(std::uint32_t stage) const {
    const std::int32_t micro = stages_[stage].forwards;
    if (micro == pipeline_.num_micro) return kUnknown;
    return stage == 0 ? 0 : arrival(forward_end_[index(stage - 1, micro)], stage - 1, stage);
  }
  double input_ready(std::uint32_t stage) const {
    const std::int32_t micro = stages_[stage].inputs;
    if (micro == pipeline_.num_micro) return kUnknown;
    const double own = forward_end_[index(stage, micro)];
    if (stage + 1 == stages_.size()) return own;
    return std::max(own, arrival(input_end_[index(stage + 1, micro)], stage + 1, stage));
  }

  // The oldest micro-batch that has not left the rank keeps room for the rest of its forwards; so some
  // micro-batch can always go on, whatever the others hold.
  bool fits(const Rank& rank, std::uint32_t stage) const {
    std::int32_t oldest = pipeline_.num_micro;
    for (const std::uint32_t s : rank.stages) oldest = std::min(oldest, stages_[s].weights);
    std::int64_t needed = rank.held + 1;
    for (const std::uint32_t s : rank.stages)
      if (stages_[s].forwards <= oldest && !(s == stage && stages_[s].forwards == oldest)) ++needed;
    return needed <= rank.room;
  }

  bool is_better(const Choice& a, const Choice& b, double now) const {
    const bool a_now = a.ready <= now, b_now = b.ready <= now;
    if (a_now != b_now || !a_now) return a.ready < b.ready;
    const bool a_forward = a.task.what == OpKind::forward, b_forward = b.task.what == OpKind::forward;
    if (a_forward != b_forward) return a_forward == policy_.forward_first;
    if (!a_forward) return a.task.stage < b.task.stage;
    return (a.task.stage > b.task.stage) == policy_.late_stage_first;
  }

  Choice liked_best(const Rank& rank) const {
    Choice best;
    for (const std::uint32_t stage : rank.stages) {
      const Choice input{{OpKind::backward_input, stage, stages_[stage].inputs}, input_ready(stage)};
      if (input.ready != kUnknown && is_better(input, best, rank.free_at)) best = input;
      const Choice forward{{OpKind::forward, stage, stages_[stage].forwards}, forward_ready(stage)};
      if (forward.ready != kUnknown && fits(rank, stage) && is_better(forward, best, rank.free_at))
        best = forward;
    }
    return best;
  }

  Choice next_of_skeleton(Rank& rank, std::uint32_t at) const {
    const auto& tasks = skeleton_->ranks[at];
    while (rank.next < tasks.size() && tasks[rank.next].what == OpKind::backward_weight) ++rank.next;
    if (rank.next == tasks.size()) return {};
    Task task = tasks[rank.next];
    if (task.what == OpKind::forward)
      return {task, rank.held < rank.room ? forward_ready(task.stage) : kUnknown};
    task.what = OpKind::backward_input;
    return {task, input_ready(task.stage)};
  }

  // Runs the task that rank `at` likes best, or waits.
  void choose(std::uint32_t at) {
    Rank& rank = ranks_[at];
    const double now = rank.free_at;
    const Choice best = skeleton_ ? next_of_skeleton(rank, at) : liked_best(rank);
    if (best.ready > now && rank.first_weight < rank.weights.size()) {
      const Task weight = rank.weights[rank.first_weight];
      if (best.ready - now >= policy_.patience * pipeline_.costs.stages[weight.stage].weight) {
        ++rank.first_weight;
        issue(rank, at, weight, now);
        return;
      }
    }
    if (best.ready <= now) {
      ++rank.next;
      issue(rank, at, best.task, now);
      return;
    }
    rank.is_blocked = best.ready == kUnknown;
    if (rank.is_blocked) return;
    rank.free_at = best.ready;  // or as soon as others have made something better known
    for (const Rank& other : ranks_)
      if (other.tasks_left > 0 && other.free_at > now) rank.free_at = std::min(rank.free_at, other.free_at);
  }

  void issue(Rank& rank, std::uint32_t at, const Task& task, double now) {
    const double end = now + seconds_of(task, pipeline_.costs);
    Stage& stage = stages_[task.stage];
    if (task.what == OpKind::forward) {
      forward_end_[index(task.stage, stage.forwards++)] = end;
      ++rank.held;
    } else if (task.what == OpKind::backward_input) {
      input_end_[index(task.stage, stage.inputs++)] = end;
      rank.weights.push_back({OpKind::backward_weight, task.stage, task.micro});
    } else {
      ++stage.weights;
      --rank.held;
    }
    order_.ranks[at].push_back(task);
    for (Rank& other : ranks_)
      if (std::exchange(other.is_blocked, false)) other.free_at = std::max(other.free_at, now);
    rank.free_at = end;
    --rank.tasks_left;
  }

  const Pipeline& pipeline_;
  const Policy& policy_;
  const Order* skeleton_;
  std::vector<Rank> ranks_;
  std::vector<Stage> stages_;
  std::vector<double> forward_end_, input_end_;
  Order order_;
};

}  // namespace

std::optional<Order> greedy(const Pipeline& pipeline, const std::vector<std::uint32_t>& rank_of_stage,
                            std::int64_t limit, const Policy& policy) {
  return Greedy(pipeline, rank_of_stage, limit, policy, nullptr).run();
}

std::optional<Order> with_weights_in_gaps(const Pipeline& pipeline, const Order& order, std::int64_t limit,
                                          double patience) {
  const Policy policy{.patience = patience, .most_held = limit};
  return Greedy(pipeline, order.rank_of_stage, limit, policy, &order).run();
}

}  // namespace tessera::program
