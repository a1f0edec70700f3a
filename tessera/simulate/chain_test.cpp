// Schedules through the whole way: order, program, check, simulation.
#include "tessera/program/passes/chain.hpp"

#include <gtest/gtest.h>

#include "tessera/program/check/check.hpp"
#include "tessera/program/schedule/dice.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/schedule/walk_order.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::simulate {
namespace {

using program::Costs;
using program::Order;
using program::Pipeline;

struct Schedule {
  const char* name;
  Order (*order)(const Pipeline&);
  std::uint32_t num_virtual;
};
const Schedule kGpipe{"gpipe", program::gpipe, 1}, k1f1b{"1f1b", program::one_forward_one_backward, 1},
    kInterleaved{"interleaved", program::interleaved, 2}, kBfs{"bfs", program::breadth_first, 2},
    kZbH1{"zb-h1", program::zero_bubble_h1, 1}, kZbV{"zb-v", program::zero_bubble_v, 2},
    kDualPipeV{"dualpipe-v", program::dualpipe_v, 2};
const Schedule kSchedules[] = {kGpipe, k1f1b, kInterleaved, kBfs, kZbH1, kZbV, kDualPipeV};

Order order_of(const Schedule& schedule, std::uint32_t num_ranks, std::int32_t num_micro,
               const Costs& costs) {
  return schedule.order({num_ranks, schedule.num_virtual, num_micro, costs});
}

TEST(ChainOfStages, TakesTheTimesOfThePapers) {
  struct Golden {
    Schedule schedule;
    std::uint32_t num_ranks;
    std::int32_t num_micro;
    double makespan;
  };
  const Golden cases[] = {{kGpipe, 4, 8, 33},       {k1f1b, 4, 8, 33},           {kInterleaved, 4, 8, 28.5},
                          {kBfs, 4, 8, 28.5},       {kZbH1, 4, 8, 27},           {kZbV, 4, 8, 25.5},
                          {kDualPipeV, 4, 8, 25.5}, {kInterleaved, 4, 9, 31.5},  {kZbV, 4, 9, 28.5},
                          {k1f1b, 4, 16, 57},       {kDualPipeV, 4, 9, 28.5},    {kInterleaved, 4, 16, 52.5},
                          {kZbH1, 4, 16, 51},       {k1f1b, 8, 16, 69},          {kZbV, 4, 16, 49.5},
                          {kZbH1, 8, 16, 55},       {kInterleaved, 8, 16, 58.5}, {kZbV, 8, 16, 51.5}};
  for (const Golden& golden : cases) {
    const Costs costs = program::even_costs(golden.num_ranks, golden.schedule.num_virtual, {});
    const Order order = order_of(golden.schedule, golden.num_ranks, golden.num_micro, costs);
    const program::Program program = program::chain(order, costs);
    SCOPED_TRACE(testing::Message() << golden.schedule.name << " " << golden.num_ranks << " "
                                    << golden.num_micro);
    EXPECT_EQ(program::to_text(program::check(program)), "");
    const Report found = report(program, simulate(program, table_costs(program)));
    EXPECT_DOUBLE_EQ(found.makespan, golden.makespan);
    EXPECT_NEAR(found.bubble, 1 - 3.0 * golden.num_micro / golden.makespan, 1e-12);
    std::vector<std::int64_t> peaks;
    for (const auto& of_class : found.classes) peaks.push_back(of_class.peak_activations);
    EXPECT_EQ(peaks, program::peak_activations(order));
  }
}

// Two stages, two micro-batches, 1f1b; a transfer takes 0.25. Rank 0: 0F0 at 0, 0F1 at 1, then 0B0, 0B1. Rank
// 1: 1F0 at 1.25, 1B0 at 2.25 to 4.25, 1F1 at 4.25, 1B1 at 5.25 to 7.25. Rank 0 takes up 0B0 at 4.5 and 0B1
// at 7.5, ends at 9.5.
TEST(ChainOfStages, TransfersDelayWhoNeedsThem) {
  const Costs costs = program::even_costs(2, 1, {}, 0.25);
  const program::Program program = program::chain(order_of(k1f1b, 2, 2, costs), costs);
  EXPECT_DOUBLE_EQ(simulate(program, table_costs(program)).makespan, 9.5);
}

// All forwards of 1, transfers of 2: rank 0's values leave one after the other at 1, 3, 5 and arrive at 3,
// 5, 7.
TEST(ChainOfStages, TransfersOfOneKindFollowEachOther) {
  const Costs costs = program::even_costs(2, 1, {}, 2);
  const program::Program program = program::chain(order_of(kGpipe, 2, 3, costs), costs);
  // The third forward of rank 1 ends at 8, its backwards at 10, 12, 14; gradients arrive at 12, 14, 16.
  EXPECT_DOUBLE_EQ(simulate(program, table_costs(program)).makespan, 18);
}

TEST(ChainOfStages, WithoutTransferCostsTakesTheTimesOfItsOrder) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    program::Dice dice(seed, "chains");
    const Schedule& schedule = kSchedules[dice.below(std::size(kSchedules))];
    const auto num_ranks = static_cast<std::uint32_t>(2 + dice.below(5));
    const auto num_micro = static_cast<std::int32_t>(2 * num_ranks + dice.below(8));
    Costs costs;
    for (std::uint32_t stage = 0; stage < num_ranks * schedule.num_virtual; ++stage) {
      const auto some = [&] { return 0.25 * static_cast<double>(1 + dice.below(8)); };
      costs.stages.push_back({some(), some(), some()});
    }
    const Order order = order_of(schedule, num_ranks, num_micro, costs);
    const program::Walk walk = program::walk(order, costs);
    const program::Program program = program::chain(order, costs);
    const Timeline timeline = simulate(program, table_costs(program));
    ASSERT_EQ(timeline.makespan, walk.makespan) << schedule.name << ", seed " << seed;
    for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
      std::vector<program::Span> computed;
      for (std::size_t at = 0; at < program.classes[rank].ops.size(); ++at)
        if (program::is_compute(program.classes[rank].ops[at].what))
          computed.push_back(timeline.classes[rank][at]);
      ASSERT_EQ(computed, walk.tasks[rank]) << schedule.name << ", seed " << seed << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace tessera::simulate
