#include "tessera/program/automatic.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/program/greedy.hpp"
#include "tessera/program/improve.hpp"
#include "tessera/program/periodic.hpp"
#include "tessera/program/walk_order.hpp"

namespace tessera::program {
namespace {

struct Places {
  std::string name;
  std::vector<std::uint32_t> rank_of_stage;
};

// Every stage becomes `width` neighbours on one rank.
std::vector<std::uint32_t> repeated(const std::vector<std::uint32_t>& ranks, std::uint32_t width) {
  std::vector<std::uint32_t> out;
  for (const std::uint32_t rank : ranks) out.insert(out.end(), width, rank);
  return out;
}

std::vector<Places> all_places(const Pipeline& pipeline) {
  std::vector<Places> out = {{"looped", looped(pipeline.num_ranks, pipeline.num_virtual)}};
  if (pipeline.num_virtual % 2 == 0)
    out.push_back({"V", repeated(vee(pipeline.num_ranks), pipeline.num_virtual / 2)});
  if (pipeline.num_virtual > 1) out.push_back({"blocked", blocked(pipeline.num_ranks, pipeline.num_virtual)});
  return out;
}

// No order is faster on these places: a rank can't begin before the first value reaches it, and does all its work.
double lower_bound(const Pipeline& pipeline, const std::vector<std::uint32_t>& rank_of_stage) {
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

// Keeps the best of what it is shown, and the best of each places to start from.
class Contest {
 public:
  Contest(const Pipeline& pipeline, const Limits& limits)
      : pipeline_(pipeline),
        limit_(limits.activations),
        num_tasks_(std::int64_t{3} * pipeline.num_stages() * pipeline.num_micro),
        tasks_left_(limits.tasks) {}

  void show(std::string name, Order order) {
    if (std::ranges::max(peak_activations(order)) > limit_) return;
    const Walk walked = walk(order, pipeline_.costs);
    tasks_left_ -= num_tasks_;
    if (!walked.stuck.empty()) return;
    shown_.push_back({std::move(order), std::move(name), walked.makespan});
  }

  // Best first; of equals the one shown first.
  std::vector<Found>& ranking() {
    std::ranges::stable_sort(shown_, {}, &Found::makespan);
    return shown_;
  }
  bool is_empty() const { return shown_.empty(); }
  std::int64_t limit() const { return limit_; }
  std::int64_t num_tasks() const { return num_tasks_; }
  std::int64_t tasks_left() const { return tasks_left_; }

 private:
  const Pipeline& pipeline_;
  std::int64_t limit_, num_tasks_, tasks_left_;
  std::vector<Found> shown_;
};

constexpr double kPatience[] = {0, 0.5, 1};

void show_greedy_orders(const Pipeline& pipeline, Contest& contest) {
  const std::int64_t last_rank = pipeline.num_ranks - 1;
  const std::int64_t all = std::int64_t{pipeline.num_virtual} * pipeline.num_micro;
  const std::int64_t room = std::min(contest.limit(), all);
  for (const Places& places : all_places(pipeline))
    for (const bool forward_first : {false, true})
      for (const bool late_stage_first : {true, false})
        for (const double patience : kPatience)
          for (const std::int64_t more : {0, 1, 2}) {
            const Policy policy{forward_first, late_stage_first, patience, room - more * last_rank, more};
            if (policy.most_held < 1) continue;
            if (auto order = greedy(pipeline, places.rank_of_stage, room, policy))
              contest.show(cat("greedy, ", places.name), std::move(*order));
          }
}

// Repetitions drawn with the true costs, and with equal ones: the ways of several micro-batches then mesh without a rest,
// and are delayed alike when the walk takes longer.
void show_periodic_orders(const Pipeline& pipeline, Contest& contest) {
  Pipeline equal = pipeline;
  equal.costs = even_costs(pipeline.num_ranks, pipeline.num_virtual, {1, 1, 1});
  constexpr double kStretches[] = {1, 1.5, 2}, kBeats[] = {1, 1.25, 1.5};
  for (const Places& places : all_places(pipeline))
    for (const bool is_equal : {true, false})
      for (const double forward : kStretches)
        for (const double input : kStretches)
          for (const double beat : kBeats) {
            const Order order =
                periodic(is_equal ? equal : pipeline, places.rank_of_stage, {forward, input, beat});
            for (const double patience : {0.5, 1.0})
              if (auto full = with_weights_in_gaps(pipeline, order, contest.limit(), patience))
                contest.show(cat("periodic, ", places.name), std::move(*full));
          }
}

// The most promising orders, one per name, each given an equal share of the effort.
void show_improved_orders(const Pipeline& pipeline, Contest& contest, double good_enough) {
  constexpr std::size_t kNumStarts = 4;
  std::vector<Found> starts;
  for (const Found& found : contest.ranking()) {
    const bool is_new =
        std::ranges::none_of(starts, [&](const Found& s) { return s.winner == found.winner; });
    if (is_new && starts.size() < kNumStarts) starts.push_back(found);
  }
  const std::int64_t rounds = contest.tasks_left() / (contest.num_tasks() * std::ssize(starts));
  for (Found& start : starts) {
    if (contest.ranking().front().makespan <= good_enough) return;
    contest.show(start.winner + ", improved", improved(split_backwards(start.order), pipeline.costs,
                                                       {contest.limit(), good_enough, rounds}));
  }
}

}  // namespace

Found automatic(const Pipeline& pipeline, const Limits& limits) {
  CHECK(pipeline.costs.stages.size() == pipeline.num_stages(), "costs of ", pipeline.costs.stages.size(),
        " stages for ", pipeline.num_stages());
  if (limits.activations < pipeline.num_virtual)
    throw UserError(cat("no order holds at most ", limits.activations,
                        " activations of a stage on each rank; a rank "
                        "must hold one micro-batch, which is ",
                        pipeline.num_virtual, ": allow at least as many"));
  double good_enough = std::numeric_limits<double>::infinity();
  for (const Places& places : all_places(pipeline))
    good_enough = std::min(good_enough, lower_bound(pipeline, places.rank_of_stage));
  good_enough *= 1 + 1e-9;

  Contest contest(pipeline, limits);
  const std::vector<Found> fixed = fixed_candidates(pipeline);
  for (const Found& found : fixed) contest.show(found.winner, found.order);
  const auto is_done = [&] {
    return !contest.is_empty() && contest.ranking().front().makespan <= good_enough;
  };
  if (!is_done())
    for (const Found& found : fixed)
      for (const double patience : kPatience)
        if (auto order = with_weights_in_gaps(pipeline, found.order, contest.limit(), patience))
          contest.show(found.winner + ", weight halves by cost", std::move(*order));
  if (!is_done()) show_greedy_orders(pipeline, contest);
  // They are for little room: with that of a full pipeline the others are as good, and sooner made.
  if (!is_done() && limits.activations < pipeline.num_stages()) show_periodic_orders(pipeline, contest);
  CHECK(!contest.is_empty(), "no order within a limit that one micro-batch at a time meets");
  if (!is_done()) show_improved_orders(pipeline, contest, good_enough);
  return std::move(contest.ranking().front());
}

}  // namespace tessera::program
