// Does what `auto` promises hold for the program that is made of its order?
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tessera/plan/stages/schedule.hpp"
#include "tessera/program/passes/chain.hpp"
#include "tessera/program/schedule/dice.hpp"
#include "tessera/program/schedule/walk_order.hpp"
#include "tessera/program/search/automatic.hpp"
#include "tessera/simulate/costs.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::plan {
namespace {

double makespan(const program::Order& order, const program::Costs& costs) {
  const program::Program program = program::chain(order, costs);
  return simulate::simulate(program, simulate::table_costs(program)).makespan;
}

TEST(AutomaticSimulated, IsNeverWorseThanAFixedScheduleThatHoldsNoMore) {
  program::Dice dice(11, "automatic, simulated");
  for (int round = 0; round < 200; ++round) {
    const auto seconds = [&](std::uint32_t most) { return 0.05 + 0.01 * dice.below(most); };
    const std::uint32_t num_ranks = 1 + dice.below(5), num_virtual = 1 + dice.below(2);
    const program::Pipeline pipeline{
        num_ranks, num_virtual, static_cast<std::int32_t>(1 + dice.below(12)),
        program::even_costs(num_ranks, num_virtual, {seconds(200), seconds(200), seconds(200)},
                            dice.below(2) == 0 ? 0 : seconds(20))};
    const std::int64_t limit = num_virtual + dice.below(2 * pipeline.num_stages() + 1);
    const Scheduled found = schedule("auto"_schedule, pipeline, limit);
    EXPECT_LE(std::ranges::max(program::peak_activations(found.order)), limit);
    double best_fixed = std::numeric_limits<double>::infinity();
    for (const program::Placed& placed : program::placements(pipeline))
      for (const auto& [name, order] : program::fixed_orders(placed)) {
        const double seconds = makespan(order, pipeline.costs);
        EXPECT_GE(seconds, program::walk(order, pipeline.costs).makespan * (1 - 1e-12)) << name;
        if (std::ranges::max(program::peak_activations(order)) <= limit)
          best_fixed = std::min(best_fixed, seconds);
      }
    EXPECT_LE(makespan(found.order, pipeline.costs), best_fixed * (1 + 1e-12))
        << "round " << round << ": P" << num_ranks << " v" << num_virtual << " M" << pipeline.num_micro
        << ", limit " << limit << ", transfer " << pipeline.costs.transfer << ": " << found.note;
  }
}

}  // namespace
}  // namespace tessera::plan
