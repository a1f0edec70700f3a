#include "tessera/program/automatic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/program/greedy.hpp"
#include "tessera/program/improve.hpp"
#include "tessera/program/walk_order.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::int64_t peak(const Order& order) { return std::ranges::max(peak_activations(order)); }

Pipeline even_pipeline(std::uint32_t num_ranks, std::uint32_t num_virtual, std::int32_t num_micro,
                       const StageCost& cost, double transfer = 0) {
  return {num_ranks, num_virtual, num_micro, even_costs(num_ranks, num_virtual, cost, transfer)};
}

TEST(Automatic, FillsTheGapsThatUnequalCostsOpenInZbV) {
  const Pipeline pipeline = even_pipeline(4, 2, 8, {1, 1.2, 0.8});
  const Found with_nine = automatic(pipeline, {.activations = 9});
  EXPECT_NEAR(with_nine.makespan, 25.5, 1e-9) << with_nine.winner;
  EXPECT_LE(peak(with_nine.order), 9);
  const Found with_eight = automatic(pipeline, {.activations = 8});
  EXPECT_LE(with_eight.makespan, 25.8 + 1e-9) << with_eight.winner;
  EXPECT_LE(peak(with_eight.order), 8);
}

TEST(Automatic, TakesTheSimplestOfTheFastest) {
  EXPECT_EQ(automatic(even_pipeline(4, 2, 8, {1, 1, 1})).winner, "zb-v");
  EXPECT_EQ(automatic(even_pipeline(1, 1, 3, {1, 1, 1})).winner, "1f1b");
}

TEST(Automatic, HoldsAThirdOfZbVForATenthMoreTime) {
  const Pipeline pipeline = even_pipeline(16, 2, 64, {1, 1, 1});
  const Found found = automatic(pipeline, {.activations = 12, .tasks = 1'000'000});
  EXPECT_LE(found.makespan, 221.5) << found.winner;  // zb-v: 199.5 holding 32
  EXPECT_LE(peak(found.order), 12);
}

TEST(Automatic, SchedulesWithFewerStagesPerRankRunNeighboursAsOne) {
  for (const Found& found : fixed_candidates(even_pipeline(4, 2, 8, {1, 1, 1}))) {
    EXPECT_EQ(found.order.rank_of_stage.size(), 8u) << found.winner;
    if (found.winner == "zb-h1") {
      EXPECT_EQ(found.order.rank_of_stage, blocked(4, 2));
      EXPECT_EQ(found.makespan, 27);
      EXPECT_EQ(peak(found.order), 8);  // four micro-batches of two stages
    }
  }
}

TEST(Automatic, SaysTheLeastThatMustBeHeld) {
  EXPECT_THAT(
      [] {
        automatic(even_pipeline(4, 2, 8, {1, 1, 1}), {.activations = 1});
      },
      ThrowsMessage<UserError>(HasSubstr("must hold one micro-batch, which is 2")));
  const Pipeline pipeline = even_pipeline(4, 2, 8, {1, 1, 1});
  EXPECT_EQ(peak(automatic(pipeline, {.activations = 2, .tasks = 1000}).order), 2);
}

TEST(Automatic, GivesTheSameAnswerTwice) {
  const Pipeline pipeline = even_pipeline(5, 2, 7, {1, 1.7, 0.4}, 0.1);
  const Found found = automatic(pipeline, {.activations = 7, .tasks = 500'000});
  EXPECT_THAT(found.winner, HasSubstr("improved"));
  EXPECT_EQ(found.order, automatic(pipeline, {.activations = 7, .tasks = 500'000}).order);
}

TEST(Improve, AgreesWithTheWalkAndStaysWithinTheLimit) {
  const Pipeline pipeline = even_pipeline(4, 2, 8, {1, 1.4, 0.7});
  const Order start = *greedy(pipeline, vee(4), 7, {.most_held = 7});
  const double before = walk(start, pipeline.costs).makespan;
  const Order better = improved(start, pipeline.costs, {.limit = 7, .good_enough = 0, .rounds = 5000});
  EXPECT_LT(walk(better, pipeline.costs).makespan, before);
  EXPECT_LE(peak(better), 7);
  EXPECT_EQ(improved(start, pipeline.costs, {.limit = 7, .good_enough = before, .rounds = 5000}), start);
}

}  // namespace
}  // namespace tessera::program
