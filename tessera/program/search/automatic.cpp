#include "tessera/program/search/automatic.hpp"

#include <algorithm>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/program/schedule/walk_order.hpp"
#include "tessera/program/search/greedy.hpp"
#include "tessera/program/search/improve.hpp"
#include "tessera/program/search/periodic.hpp"

namespace tessera::program {
namespace {

// No order is faster on these places: a rank can't begin before the first value reaches it, and does all its
// work.
double lower_bound(const Placed& placed) {
  const Pipeline& pipeline = placed.pipeline;
  const auto& rank_of_stage = placed.rank_of_stage;
  std::vector<double> begin(pipeline.num_ranks, -1), work(pipeline.num_ranks, 0);
  double reached = 0;
  for (std::size_t stage = 0; stage < rank_of_stage.size(); ++stage) {
    const std::uint32_t rank = rank_of_stage[stage];
    if (stage > 0 && rank_of_stage[stage - 1] != rank) reached += pipeline.costs.transfer;
    if (begin[rank] < 0) begin[rank] = reached;
    const StageCost& cost = pipeline.costs.stages[stage];
    reached += cost.forward;
    work[rank] += pipeline.num_micro * (cost.forward + cost.input + cost.weight);
  }
  double out = 0;
  for (std::uint32_t rank = 0; rank < pipeline.num_ranks; ++rank)
    out = std::max(out, begin[rank] + work[rank]);
  return out;
}

std::uint32_t most_virtual(std::span<const Placed> placed) {
  std::uint32_t out = 1;
  for (const Placed& p : placed) out = std::max(out, p.pipeline.num_virtual);
  return out;
}

std::int64_t num_tasks(const Pipeline& pipeline) {
  return std::int64_t{3} * pipeline.num_stages() * pipeline.num_micro;
}

// Keeps the best that it is shown of each name and placement, and counts the effort.
class Contest {
 public:
  struct Shown {
    Found found;
    bool is_fixed;
  };

  Contest(std::span<const Placed> placed, const Limits& limits)
      : placed_(placed), limits_(limits), tasks_left_(limits.tasks) {
    for (const Placed& p : placed) good_enough_ = std::min(good_enough_, lower_bound(p) * (1 + 1e-9));
  }

  // A construction on a placement: nothing if it failed.
  void show_built(const std::string& name, std::size_t at, std::optional<Order> order) {
    // To choose among ranks takes the longer the more there are.
    tasks_left_ -= num_tasks(pipeline(at)) * (1 + pipeline(at).num_ranks / 16);
    if (order) show(name, at, std::move(*order), false);
  }

  void show(const std::string& name, std::size_t at, Order order, bool is_fixed) {
    if (std::ranges::max(peak_activations(order)) > limit(at)) return;
    const Walk walked = walk(order, pipeline(at).costs);
    tasks_left_ -= num_tasks(pipeline(at));
    if (!walked.stuck.empty()) return;
    best_ = std::min(best_, walked.makespan);
    Found found{std::move(order), at, name, walked.makespan};
    const auto before = std::ranges::find_if(
        shown_, [&](const Shown& s) { return s.found.placed == at && s.found.winner == name; });
    if (before == shown_.end())
      shown_.push_back({std::move(found), is_fixed});
    else if (found.makespan < before->found.makespan)
      before->found = std::move(found);
  }

  // Best first; of equals the one shown first.
  std::vector<Shown>& ranking() {
    std::ranges::stable_sort(shown_, {}, [](const Shown& s) { return s.found.makespan; });
    return shown_;
  }

  // Whether to look no further.
  bool is_over() const { return !shown_.empty() && (tasks_left_ <= 0 || best_ <= good_enough_); }
  double good_enough() const { return good_enough_; }
  std::int64_t tasks_left() const { return tasks_left_; }
  const Pipeline& pipeline(std::size_t at) const { return placed_[at].pipeline; }
  // In activations of this placement's stages, without a product that could exceed 64 bits.
  std::int64_t limit(std::size_t at) const {
    const std::int64_t finest = most_virtual(placed_), own = pipeline(at).num_virtual;
    return limits_.activations / finest * own + limits_.activations % finest * own / finest;
  }

 private:
  std::span<const Placed> placed_;
  Limits limits_;
  std::int64_t tasks_left_;
  double good_enough_ = std::numeric_limits<double>::infinity(), best_ = good_enough_;
  std::vector<Shown> shown_;
};

constexpr double kPatience[] = {0, 0.5, 1};

void show_fixed_orders(std::span<const Placed> placed, Contest& contest) {
  std::vector<std::vector<NamedOrder>> fixed;
  for (std::size_t at = 0; at < placed.size(); ++at)
    for (const NamedOrder& named : fixed.emplace_back(fixed_orders(placed[at])))
      contest.show(named.name, at, named.order, true);
  for (const double patience : kPatience)
    for (std::size_t at = 0; at < placed.size(); ++at)
      for (const NamedOrder& named : fixed[at]) {
        if (contest.is_over()) return;
        contest.show_built(
            named.name + ", weight halves by cost", at,
            with_weights_in_gaps(placed[at].pipeline, named.order, contest.limit(at), patience));
      }
}

std::vector<Policy> policies() {
  std::vector<Policy> out;
  for (const bool forward_first : {false, true})
    for (const bool late_stage_first : {true, false})
      for (const double patience : kPatience)
        for (const std::int64_t more : {0, 1, 2})
          out.push_back({forward_first, late_stage_first, patience, 0, more});
  return out;
}

void show_greedy_orders(std::span<const Placed> placed, Contest& contest) {
  for (Policy policy : policies())
    for (std::size_t at = 0; at < placed.size(); ++at) {
      if (contest.is_over()) return;
      const Pipeline& pipeline = placed[at].pipeline;
      const std::int64_t all = std::int64_t{pipeline.num_virtual} * pipeline.num_micro;
      const std::int64_t room = std::min(contest.limit(at), all);
      policy.most_held = room - policy.more_per_rank * (pipeline.num_ranks - 1);
      if (policy.most_held < 1) continue;
      contest.show_built(cat("greedy, ", word(placed[at])), at,
                         greedy(pipeline, placed[at].rank_of_stage, room, policy));
    }
}

std::vector<Rhythm> rhythms() {
  std::vector<Rhythm> out;
  for (const double forward : {1.0, 1.5, 2.0})
    for (const double input : {1.0, 1.5, 2.0})
      for (const double beat : {1.0, 1.25, 1.5}) out.push_back({forward, input, beat});
  return out;
}

// Repetitions drawn with the true costs, and with equal ones: the ways of several micro-batches then mesh
// without a rest, and are delayed alike when the walk takes longer. They are for little room: with that of a
// full pipeline the others are as good, and sooner made.
void show_periodic_orders(std::span<const Placed> placed, Contest& contest) {
  for (const bool is_equal : {true, false})
    for (const Rhythm& rhythm : rhythms())
      for (std::size_t at = 0; at < placed.size(); ++at) {
        const Pipeline& pipeline = placed[at].pipeline;
        if (contest.limit(at) >= pipeline.num_stages()) continue;
        Pipeline drawn = pipeline;
        if (is_equal) drawn.costs = even_costs(pipeline.num_ranks, pipeline.num_virtual, {1, 1, 1});
        const Order order = periodic(drawn, placed[at].rank_of_stage, rhythm);
        for (const double patience : {0.5, 1.0}) {
          if (contest.is_over()) return;
          contest.show_built(cat("periodic, ", word(placed[at])), at,
                             with_weights_in_gaps(pipeline, order, contest.limit(at), patience));
        }
      }
}

// The most promising orders, each given an equal share of the effort that is left.
void show_improved_orders(Contest& contest) {
  constexpr std::size_t kNumStarts = 4;
  std::vector<Found> starts;
  for (const auto& shown : contest.ranking())
    if (starts.size() < kNumStarts) starts.push_back(shown.found);
  const std::int64_t share = contest.tasks_left() / std::ssize(starts);
  for (const Found& start : starts) {
    if (contest.is_over()) return;
    const Pipeline& pipeline = contest.pipeline(start.placed);
    const Effort effort{contest.limit(start.placed), contest.good_enough(), share / num_tasks(pipeline)};
    contest.show(start.winner + ", improved", start.placed,
                 improved(split_backwards(start.order), pipeline.costs, effort), false);
  }
}

// No order is faster than its walk, so the ranking need be followed only that far. Of orders that were
// searched for only the first few are looked at, fewer where that takes long.
Found judged(std::span<const Placed> placed, Contest& contest, const Limits& limits,
             const Makespan& makespan) {
  auto& ranking = contest.ranking();
  const std::int64_t num_tasks_first = num_tasks(contest.pipeline(ranking.front().found.placed));
  std::int64_t num_searched = std::clamp<std::int64_t>(limits.tasks / (8 * num_tasks_first), 1, 8);
  Found* best = nullptr;
  for (auto& [found, is_fixed] : ranking) {
    if (best && found.makespan >= best->makespan) break;
    if (!is_fixed && num_searched-- <= 0) continue;
    found.makespan = makespan(found.order, placed[found.placed]);
    if (!best || found.makespan < best->makespan) best = &found;
  }
  return std::move(*best);
}

}  // namespace

Found automatic(std::span<const Placed> placed, const Limits& limits, const Makespan& makespan) {
  TESSERA_CHECK(!placed.empty(), "stages must lie somewhere");
  for (const Placed& p : placed)
    TESSERA_CHECK(p.pipeline.costs.stages.size() == p.pipeline.num_stages(), "costs of ",
                  p.pipeline.costs.stages.size(), " stages for ", p.pipeline.num_stages());
  if (const std::uint32_t least = most_virtual(placed); limits.activations < least)
    throw UserError(cat("no order holds at most ", limits.activations,
                        " activations of a stage on each rank; a rank must hold one micro-batch, which is ",
                        least, ": allow at least as many"));
  Contest contest(placed, limits);
  show_fixed_orders(placed, contest);
  show_periodic_orders(placed, contest);
  show_greedy_orders(placed, contest);
  TESSERA_CHECK(!contest.ranking().empty(), "no order within a limit that one micro-batch at a time meets");
  show_improved_orders(contest);
  return makespan ? judged(placed, contest, limits, makespan) : std::move(contest.ranking().front().found);
}

}  // namespace tessera::program
