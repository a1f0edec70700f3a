// Does the search keep its promise for any costs, and how long does it take where pipelines are long?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "tessera/base/text.hpp"
#include "tessera/program/schedule/dice.hpp"
#include "tessera/program/schedule/walk_order.hpp"
#include "tessera/program/search/automatic.hpp"

namespace tessera::program {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlack = 20;  // sanitizers slow everything
#else
constexpr double kSlack = 1;
#endif

std::int64_t peak(const Order& order) { return std::ranges::max(peak_activations(order)); }

// Every stage its own cost; a pipeline, a limit on what is held, and what they were drawn with.
struct Draw {
  Pipeline pipeline;
  std::int64_t limit;
};

Draw draw(Dice& dice) {
  Draw out{{1 + dice.below(6), 1 + dice.below(4), static_cast<std::int32_t>(1 + dice.below(12)), {}}, 0};
  const auto seconds = [&](std::uint32_t most) { return 0.05 + 0.01 * dice.below(most); };
  const StageCost even{seconds(200), seconds(200), seconds(200)};
  const bool is_uneven = dice.below(2) == 0;
  for (std::uint32_t stage = 0; stage < out.pipeline.num_stages(); ++stage)
    out.pipeline.costs.stages.push_back(is_uneven ? StageCost{seconds(200), seconds(200), seconds(200)}
                                                  : even);
  if (dice.below(2) == 0) out.pipeline.costs.transfer = seconds(30);
  out.limit = out.pipeline.num_virtual + dice.below(2 * out.pipeline.num_stages() + 1);
  return out;
}

TEST(AutomaticSlow, IsNeverWorseThanAFixedScheduleThatHoldsNoMore) {
  constexpr std::uint64_t kSeed = 7;
  Dice dice(kSeed, "automatic");
  int num_better = 0;
  for (int round = 0; round < 500; ++round) {
    const auto [pipeline, limit] = draw(dice);
    const std::string what = cat("seed ", kSeed, ", round ", round, ", P", pipeline.num_ranks, " v",
                                 pipeline.num_virtual, " M", pipeline.num_micro, ", limit ", limit);
    const Found found = automatic(placements(pipeline), {.activations = limit, .tasks = 200'000});
    const Walk walked = walk(found.order, pipeline.costs);
    ASSERT_EQ(walked.stuck, "") << what;
    ASSERT_EQ(walked.makespan, found.makespan) << what;
    ASSERT_LE(peak(found.order), limit) << what;
    double best_fixed = std::numeric_limits<double>::infinity();
    for (const Placed& placed : placements(pipeline))
      for (const auto& [name, order] : fixed_orders(placed))
        if (peak(order) <= limit) best_fixed = std::min(best_fixed, walk(order, pipeline.costs).makespan);
    ASSERT_LE(found.makespan, best_fixed) << what << ": " << found.winner;
    if (std::isfinite(best_fixed) && found.makespan < 0.999 * best_fixed) ++num_better;
  }
  EXPECT_GE(num_better, 200);  // or the search would be of no use
}

TEST(AutomaticSlow, SixteenRanksAndSixtyFourMicroBatchesTakeLessThanFiveSeconds) {
  for (const std::uint32_t num_virtual : {1u, 2u, 4u})
    for (const std::int64_t limit : {12, 32, 1000}) {
      const Pipeline pipeline{16, num_virtual, 64, even_costs(16, num_virtual, {1, 1.2, 0.8}, 0.05)};
      const std::clock_t begin = std::clock();  // of this thread's processor: others may be busy too
      const Found found = automatic(placements(pipeline), {.activations = limit});
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, kSlack * 5) << "v" << num_virtual << ", limit " << limit;
      RecordProperty(cat("v", num_virtual, "_limit", limit),
                     cat(found.winner, " ", found.makespan, " in ", seconds, " s"));
    }
}

TEST(AutomaticSlow, LongPipelinesTakeAboutTenSeconds) {
  for (const auto& [num_ranks, num_micro] : {std::pair{32u, 256}, {64u, 1024}}) {
    const Pipeline pipeline{num_ranks, 4, num_micro, even_costs(num_ranks, 4, {1, 1.2, 0.8}, 0.05)};
    const std::clock_t begin = std::clock();
    const Found found = automatic(placements(pipeline));
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, kSlack * 20) << num_ranks;  // there is slower hardware
    RecordProperty(cat("P", num_ranks), cat(found.winner, " ", found.makespan, " in ", seconds, " s"));
  }
}

}  // namespace
}  // namespace tessera::program
