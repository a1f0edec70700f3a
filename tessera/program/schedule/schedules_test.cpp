#include "tessera/program/schedule/schedules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tessera/base/text.hpp"
#include "tessera/program/schedule/dice.hpp"
#include "tessera/program/schedule/registry.hpp"
#include "tessera/program/schedule/walk_order.hpp"

namespace tessera::program {
namespace {

using Peaks = std::vector<std::int64_t>;

struct Schedule {
  std::string name;
  Order (*order)(const Pipeline&);
  std::uint32_t num_virtual;
};
const Schedule kGpipe{"gpipe", gpipe, 1}, k1f1b{"1f1b", one_forward_one_backward, 1},
    kInterleaved{"interleaved", interleaved, 2}, kBfs{"bfs", breadth_first, 2},
    kZbH1{"zb-h1", zero_bubble_h1, 1}, kZbV{"zb-v", zero_bubble_v, 2},
    kDualPipeV{"dualpipe-v", dualpipe_v, 2}, kVMin{"v-min", v_min, 2}, kVHalf{"v-half", v_half, 2};

struct Golden {
  Schedule schedule;
  std::uint32_t num_ranks;
  std::int32_t num_micro;
  double makespan;
  Peaks peaks;  // empty: not compared
};

TEST(Schedules, TakeTheTimesAndHoldTheActivationsOfTheirPapers) {
  const Peaks no_peaks;
  const std::vector<Golden> cases = {
      {kGpipe, 4, 8, 33, Peaks(4, 8)},
      {k1f1b, 4, 8, 33, {4, 3, 2, 1}},
      {kInterleaved, 4, 8, 28.5, {11, 9, 7, 5}},
      {kBfs, 4, 8, 28.5, Peaks(4, 16)},
      {kZbH1, 4, 8, 27, Peaks(4, 4)},
      {kZbV, 4, 8, 25.5, Peaks(4, 8)},
      {kDualPipeV, 4, 8, 25.5, Peaks(4, 9)},
      {kInterleaved, 4, 9, 31.5, {12, 10, 8, 6}},
      {kZbV, 4, 9, 28.5, Peaks(4, 8)},
      {kDualPipeV, 4, 9, 28.5, Peaks(4, 9)},
      {k1f1b, 4, 16, 57, {4, 3, 2, 1}},
      {kInterleaved, 4, 16, 52.5, no_peaks},
      {kZbH1, 4, 16, 51, Peaks(4, 4)},
      {kZbV, 4, 16, 49.5, Peaks(4, 8)},
      {k1f1b, 8, 16, 69, no_peaks},
      {kInterleaved, 8, 16, 58.5, no_peaks},
      {kZbH1, 8, 16, 55, Peaks(8, 8)},
      {kZbV, 8, 16, 51.5, Peaks(8, 16)},
      {kVMin, 4, 8, 29.5, Peaks(4, 4)},
      {kVMin, 8, 16, 61.5, {6, 8, 8, 6, 8, 8, 6, 8}},
      {kVHalf, 4, 8, 28.5, Peaks(4, 6)},
      {kVHalf, 8, 16, 58.5, Peaks(8, 10)},
  };
  for (const Golden& golden : cases) {
    const Costs costs = even_costs(golden.num_ranks, golden.schedule.num_virtual, {1, 1, 1});
    const Order order =
        golden.schedule.order({golden.num_ranks, golden.schedule.num_virtual, golden.num_micro, costs});
    const std::string what = cat(golden.schedule.name, " P", golden.num_ranks, " M", golden.num_micro);
    EXPECT_EQ(walk(order, costs).makespan, golden.makespan) << what;
    if (!golden.peaks.empty()) {
      EXPECT_EQ(peak_activations(order), golden.peaks) << what;
    }
  }
}

// Every stage and micro-batch forward once and backward once, whole or in halves, on the rank of the stage.
void expect_complete(const Order& order, const std::string& what) {
  std::multiset<Task> found;
  for (std::uint32_t rank = 0; rank < order.ranks.size(); ++rank)
    for (const Task& task : order.ranks[rank]) {
      ASSERT_LT(task.stage, order.rank_of_stage.size()) << what;
      ASSERT_EQ(order.rank_of_stage[task.stage], rank) << what;
      found.insert(task);
    }
  std::size_t expected = 0;
  for (std::uint32_t stage = 0; stage < order.rank_of_stage.size(); ++stage)
    for (std::int32_t micro = 0; micro < order.num_micro; ++micro) {
      const auto whole = found.count({OpKind::backward, stage, micro});
      const auto input = found.count({OpKind::backward_input, stage, micro});
      ASSERT_EQ(found.count({OpKind::forward, stage, micro}), 1u) << what;
      ASSERT_EQ(whole + input, 1u) << what;
      ASSERT_EQ(found.count({OpKind::backward_weight, stage, micro}), input) << what;
      expected += 2 + input;
    }
  ASSERT_EQ(found.size(), expected) << what;
}

TEST(Schedules, AreCompleteAndRunForAnyNumberOfRanksAndMicroBatches) {
  for (const ScheduleEntry& schedule : kSchedules)
    for (std::uint32_t num_ranks = 1; num_ranks <= 9 && !schedule.traits.is_search; ++num_ranks)
      for (std::int32_t num_micro = 1; num_micro <= 21; ++num_micro) {
        const auto least = schedule.traits.least_micro_per_rank * static_cast<std::int32_t>(num_ranks);
        if (num_micro < least) continue;
        const std::string what = cat(schedule.name, " P", num_ranks, " M", num_micro);
        const std::uint32_t num_virtual = schedule.num_virtual == 0 ? 2 : schedule.num_virtual;
        const Order order = schedule.order({num_ranks, num_virtual, num_micro, {}});
        ASSERT_EQ(order.num_micro, num_micro) << what;
        ASSERT_NO_FATAL_FAILURE(expect_complete(order, what));
        const Walk found = walk(order, even_costs(num_ranks, num_virtual, {1, 1.3, 0.7}, 0.1));
        ASSERT_EQ(found.stuck, "") << what;
      }
}

TEST(Schedules, TakeTheTimeOfTheirFormulaForRandomCosts) {
  constexpr std::uint64_t kSeed = 1;
  Dice dice(kSeed, "schedules");
  const auto seconds = [&] { return 0.1 + 0.01 * dice.below(200); };
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t num_ranks = 1 + dice.below(10), num_virtual = 1 + dice.below(4);
    const auto num_micro = static_cast<std::int32_t>(num_ranks + dice.below(25));
    StageCost cost{seconds(), seconds(), seconds()};
    const auto expect = [&](const Order& order, std::uint32_t of_virtual, double expected) {
      const Walk found = walk(order, even_costs(num_ranks, of_virtual, cost));
      ASSERT_NEAR(found.makespan, expected, 1e-9 * expected)
          << "seed " << kSeed << ", round " << round << ", P" << num_ranks << " v" << of_virtual << " M"
          << num_micro;
    };
    const double start = num_ranks - 1.0, micro = cost.forward + cost.input + cost.weight;
    expect(gpipe({num_ranks, 1, num_micro, {}}), 1, (num_micro + start) * micro);
    expect(one_forward_one_backward({num_ranks, 1, num_micro, {}}), 1, (num_micro + start) * micro);
    const double looped_seconds = (num_micro + start / num_virtual) * micro;
    expect(interleaved({num_ranks, num_virtual, num_micro, {}}), num_virtual, looped_seconds);
    expect(breadth_first({num_ranks, num_virtual, num_micro, {}}), num_virtual, looped_seconds);
    const double bubble = 1 - num_micro * micro / looped_seconds;
    ASSERT_NEAR(bubble, start / (num_virtual * num_micro + start), 1e-12);
    cost.weight = std::min({cost.weight, cost.forward, cost.input});
    expect(zero_bubble_h1({num_ranks, 1, num_micro, {}}), 1,
           num_micro * (cost.forward + cost.input + cost.weight) +
               start * (cost.forward + cost.input - cost.weight));
  }
}

TEST(Schedules, OnlyTheStartOfAVIsIdleWhenTheThreePartsTakeEquallyLong) {
  for (std::uint32_t num_ranks = 1; num_ranks <= 12; ++num_ranks)
    for (std::int32_t num_micro = 2 * static_cast<std::int32_t>(num_ranks); num_micro < 40; num_micro += 3) {
      const Costs costs = even_costs(num_ranks, 2, {1, 1, 1});
      const double expected = 3.0 * num_micro + (num_ranks - 1) / 2.0;
      const Order zb_v = zero_bubble_v({num_ranks, 2, num_micro, costs});
      const Order dualpipe = dualpipe_v({num_ranks, 2, num_micro, costs});
      EXPECT_EQ(walk(zb_v, costs).makespan, expected) << "P" << num_ranks << " M" << num_micro;
      EXPECT_EQ(walk(dualpipe, costs).makespan, expected) << "P" << num_ranks << " M" << num_micro;
      EXPECT_EQ(peak_activations(zb_v), Peaks(num_ranks, 2 * num_ranks));
      EXPECT_EQ(peak_activations(dualpipe), Peaks(num_ranks, 2 * num_ranks + 1));
    }
}

// As their paper has it: a third and a half of what zb-v holds, but for a few at the turns, for two thirds
// and a half of 1f1b's bubble, 3 (num_ranks - 1).
TEST(Schedules, VMinAndVHalfTradeMemoryForIdleTime) {
  for (std::uint32_t num_ranks = 1; num_ranks <= 32; ++num_ranks) {
    const auto num_micro = static_cast<std::int32_t>(3 * num_ranks);
    const Costs costs = even_costs(num_ranks, 2, {1, 1, 1});
    const auto expect = [&](const Order& order, std::int64_t part, std::int64_t more, double most_idle) {
      EXPECT_LE(part * std::ranges::max(peak_activations(order)), 2 * num_ranks + more) << num_ranks;
      EXPECT_LE(walk(order, costs).makespan - 3 * num_micro, most_idle) << num_ranks;
    };
    expect(v_min({num_ranks, 2, num_micro, {}}), 3, 8, 2.0 * (num_ranks - 1) + 0.5);
    expect(v_half({num_ranks, 2, num_micro, {}}), 2, 4, 1.5 * (num_ranks - 1));
  }
}

// Groups of 8 and 2 micro-batches would get stuck: rank 0 would stand before 8F9, which needs 7F9.
TEST(Schedules, ARemainderIsSpreadOverTheGroupsOfInterleaved) {
  const Pipeline pipeline{8, 2, 10, even_costs(8, 2, {1, 1, 1})};
  const Walk found = walk(interleaved(pipeline), pipeline.costs);
  EXPECT_EQ(found.stuck, "");
  EXPECT_EQ(found.makespan, 10 * 3 + 7 * 1.5);
}

TEST(Schedules, StagesLieInLoopsOrInAV) {
  using Ranks = std::vector<std::uint32_t>;
  EXPECT_EQ(looped(3, 2), (Ranks{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(vee(3), (Ranks{0, 1, 2, 2, 1, 0}));
}

}  // namespace
}  // namespace tessera::program
