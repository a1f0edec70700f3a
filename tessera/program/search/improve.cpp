#include "tessera/program/search/improve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/program/schedule/dice.hpp"

namespace tessera::program {
namespace {

constexpr std::uint32_t kNone = 0xffff'ffff;
constexpr double kStuck = std::numeric_limits<double>::infinity();

// An order with its times: tasks as numbers, so that thousands of changes can be walked.
class TimedOrder {
 public:
  TimedOrder(const Order& order, const Costs& costs)
      : num_stages_(static_cast<std::uint32_t>(order.rank_of_stage.size())),
        num_micro_(static_cast<std::uint32_t>(order.num_micro)),
        transfer_(costs.transfer),
        rank_of_stage_(order.rank_of_stage),
        ranks_(order.ranks.size()),
        next_(order.ranks.size()),
        awaited_(order.ranks.size()),
        free_at_(order.ranks.size()) {
    const std::size_t num_tasks = std::size_t{3} * num_stages_ * num_micro_;
    seconds_.resize(num_tasks);
    end_.resize(num_tasks);
    start_.resize(num_tasks);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (const Task& task : order.ranks[rank]) {
        const std::uint32_t id = id_of(task);
        seconds_[id] = seconds_of(task, costs);
        ranks_[rank].push_back(id);
      }
  }

  std::vector<std::uint32_t>& rank(std::size_t at) { return ranks_[at]; }
  std::size_t num_ranks() const { return ranks_.size(); }

  // Activations that a rank holds at most: a forward adds one, a weight half ends one.
  std::int64_t peak(std::size_t at) const {
    std::int64_t held = 0, most = 0;
    for (const std::uint32_t id : ranks_[at])
      most = std::max(most, held += 1 - static_cast<std::int64_t>(id / (num_stages_ * num_micro_)));
    return most;
  }

  // Whether `second`, on the same rank, needs what `first` makes.
  bool feeds(std::uint32_t first, std::uint32_t second) const {
    const std::uint32_t layer = num_stages_ * num_micro_;
    if (second == first + layer) return true;
    if (first % num_micro_ != second % num_micro_ || first / layer != second / layer) return false;
    return first / layer == 0 ? second == first + num_micro_
                              : first / layer == 1 && first == second + num_micro_;
  }

  // The makespan; kStuck if ranks wait for each other.
  double walk() {
    std::ranges::fill(next_, 0);
    std::ranges::fill(free_at_, 0);
    std::ranges::fill(end_, -1);
    std::ranges::fill(awaited_, kNone);
    std::size_t left = 0;
    runnable_.clear();
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      left += ranks_[r].size();
      runnable_.push_back(r);
    }
    while (!runnable_.empty()) {
      const std::uint32_t r = runnable_.back();
      runnable_.pop_back();
      left -= advance(r);
    }
    if (left > 0) return kStuck;
    return *std::ranges::max_element(free_at_);
  }

  struct Place {
    std::uint32_t rank, at;
  };
  // After a walk: places whose task starts when the one before it on the rank ends, along a longest chain of
  // tasks.
  void critical_pairs(std::vector<Place>& out) {
    out.clear();
    auto r = static_cast<std::uint32_t>(std::ranges::max_element(free_at_) - free_at_.begin());
    std::size_t at = ranks_[r].size() - 1;
    while (true) {
      const std::uint32_t id = ranks_[r][at];
      if (at > 0 && end_[ranks_[r][at - 1]] == start_[id]) {
        out.push_back({r, static_cast<std::uint32_t>(at)});
        --at;
        continue;
      }
      const std::uint32_t from = input_of(id);
      if (from == kNone) return;
      r = rank_of_stage_[from / num_micro_ % num_stages_];
      at = static_cast<std::size_t>(std::ranges::find(ranks_[r], from) - ranks_[r].begin());
    }
  }

  Order order(const std::vector<std::vector<std::uint32_t>>& ranks) const {
    Order out{static_cast<std::int32_t>(num_micro_), rank_of_stage_, {}};
    constexpr OpKind kKinds[] = {OpKind::forward, OpKind::backward_input, OpKind::backward_weight};
    for (const auto& ids : ranks) {
      auto& tasks = out.ranks.emplace_back();
      for (const std::uint32_t id : ids)
        tasks.push_back({kKinds[id / (num_stages_ * num_micro_)], id / num_micro_ % num_stages_,
                         static_cast<std::int32_t>(id % num_micro_)});
    }
    return out;
  }
  const std::vector<std::vector<std::uint32_t>>& ranks() const { return ranks_; }

 private:
  std::uint32_t id_of(const Task& task) const {
    TESSERA_CHECK(task.what != OpKind::backward, "backwards must be split");
    const std::uint32_t layer = task.what == OpKind::forward          ? 0
                                : task.what == OpKind::backward_input ? 1
                                                                      : 2;
    return (layer * num_stages_ + task.stage) * num_micro_ + static_cast<std::uint32_t>(task.micro);
  }

  // The task of another stage that it needs; of a weight half and of the last stage's backward: of its own
  // stage.
  std::uint32_t input_of(std::uint32_t id) const {
    const std::uint32_t layer = num_stages_ * num_micro_;
    if (id < num_micro_) return kNone;
    if (id < layer) return id - num_micro_;
    if (id >= 2 * layer - num_micro_) return id - layer;
    return id + num_micro_;
  }

  // Runs the tasks of a rank until one lacks its input; how many ran.
  std::size_t advance(std::uint32_t r) {
    const auto& tasks = ranks_[r];
    const std::uint32_t layer = num_stages_ * num_micro_;
    const std::size_t first = next_[r];
    awaited_[r] = kNone;
    for (; next_[r] < tasks.size(); ++next_[r]) {
      const std::uint32_t id = tasks[next_[r]], from = input_of(id);
      double start = free_at_[r];
      if (from != kNone) {
        if (end_[from] < 0) {
          awaited_[r] = from;
          break;
        }
        const bool is_near = rank_of_stage_[from / num_micro_ % num_stages_] == r;
        start = std::max(start, is_near ? end_[from] : end_[from] + transfer_);
      }
      // Its own forward must have run too.
      if (id >= layer && id < 2 * layer && end_[id - layer] < 0) break;
      start_[id] = start;
      free_at_[r] = end_[id] = start + seconds_[id];
      wake(id);
    }
    return next_[r] - first;
  }

  // Values go to the next stage, gradients to the one before.
  void wake(std::uint32_t id) {
    const std::uint32_t stage = id / num_micro_ % num_stages_, layer = id / (num_stages_ * num_micro_);
    if (layer == 2 || (layer == 0 && stage + 1 == num_stages_) || (layer == 1 && stage == 0)) return;
    const std::uint32_t to = rank_of_stage_[layer == 0 ? stage + 1 : stage - 1];
    if (awaited_[to] != id) return;
    awaited_[to] = kNone;
    runnable_.push_back(to);
  }

  std::uint32_t num_stages_, num_micro_;
  double transfer_;
  std::vector<std::uint32_t> rank_of_stage_;
  std::vector<std::vector<std::uint32_t>> ranks_;
  std::vector<double> seconds_, start_, end_;
  std::vector<std::size_t> next_;
  std::vector<std::uint32_t> awaited_, runnable_;
  std::vector<double> free_at_;
};

// A task taken out at one place of a rank and put in at another.
struct Move {
  std::uint32_t rank, from, to;
};

void make(TimedOrder& order, const Move& move) {
  const auto begin = order.rank(move.rank).begin();
  if (move.from < move.to)
    std::rotate(begin + move.from, begin + move.from + 1, begin + move.to + 1);
  else
    std::rotate(begin + move.to, begin + move.from, begin + move.from + 1);
}

// Whether the moved task still comes after what it needs, and before what needs it, on its own rank.
bool keeps_needs(TimedOrder& order, const Move& move) {
  const auto& tasks = order.rank(move.rank);
  for (std::uint32_t i = move.from + 1; i <= move.to; ++i)
    if (order.feeds(tasks[move.from], tasks[i])) return false;
  for (std::uint32_t i = move.to; i < move.from; ++i)
    if (order.feeds(tasks[i], tasks[move.from])) return false;
  return true;
}

}  // namespace

Order split_backwards(const Order& order) {
  Order out{order.num_micro, order.rank_of_stage, {}};
  for (const auto& tasks : order.ranks) {
    auto& split = out.ranks.emplace_back();
    for (const Task& task : tasks) {
      if (task.what != OpKind::backward) {
        split.push_back(task);
      } else {
        split.push_back({OpKind::backward_input, task.stage, task.micro});
        split.push_back({OpKind::backward_weight, task.stage, task.micro});
      }
    }
  }
  return out;
}

Order improved(const Order& order, const Costs& costs, const Effort& effort) {
  TimedOrder now(order, costs);
  Dice dice(0, "improve");
  double makespan = now.walk(), best = makespan;
  auto best_ranks = now.ranks();
  double mean = 0;
  for (const StageCost& cost : costs.stages)
    mean += (cost.forward + cost.input + cost.weight) / 3 / costs.stages.size();
  std::vector<TimedOrder::Place> pairs;
  now.critical_pairs(pairs);
  for (std::int64_t round = 0; round < effort.rounds && best > effort.good_enough && !pairs.empty();
       ++round) {
    // From changes that cost half a task, down to none.
    const double heat = mean * 0.5 * std::pow(0.02, static_cast<double>(round) / effort.rounds);
    const TimedOrder::Place place = pairs[dice.below(pairs.size())];
    const auto num_tasks = static_cast<std::uint32_t>(now.rank(place.rank).size());
    const std::uint32_t distance = dice.below(3) == 0 ? 0 : dice.below(std::min(num_tasks, 12u));
    const Move move = dice.below(2) == 0
                          ? Move{place.rank, place.at - 1, std::min(num_tasks - 1, place.at + distance)}
                          : Move{place.rank, place.at, place.at - 1 - std::min(place.at - 1, distance)};
    if (!keeps_needs(now, move)) continue;
    make(now, move);
    const double changed = now.peak(move.rank) > effort.limit ? kStuck : now.walk();
    const double chance = (dice.below(1 << 20) + 0.5) / (1 << 20);
    if (changed <= makespan - heat * std::log(chance)) {
      makespan = changed;
      now.critical_pairs(pairs);
      if (makespan < best - 1e-12) {
        best = makespan;
        best_ranks = now.ranks();
      }
    } else {
      make(now, {move.rank, move.to, move.from});
    }
  }
  return now.order(best_ranks);
}

}  // namespace tessera::program
