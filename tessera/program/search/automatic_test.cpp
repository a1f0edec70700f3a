#include "tessera/program/search/automatic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "tessera/base/error.hpp"
#include "tessera/program/schedule/walk_order.hpp"
#include "tessera/program/search/greedy.hpp"
#include "tessera/program/search/improve.hpp"
#include "tessera/program/testing/short_forms.hpp"

namespace tessera::program {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::int64_t peak(const Order& order) { return std::ranges::max(peak_activations(order)); }

TEST(Automatic, FillsTheGapsThatUnequalCostsOpenInZbV) {
  const Pipeline pipeline = even_pipeline(4, 2, 8, {1, 1.2, 0.8});
  const Found with_nine = automatic(placements(pipeline), {.activations = 9});
  EXPECT_NEAR(with_nine.makespan, 25.5, 1e-9) << with_nine.winner;
  EXPECT_LE(peak(with_nine.order), 9);
  const Found with_eight = automatic(placements(pipeline), {.activations = 8});
  EXPECT_LE(with_eight.makespan, 25.8 + 1e-9) << with_eight.winner;
  EXPECT_LE(peak(with_eight.order), 8);
}

TEST(Automatic, TakesTheSimplestOfTheFastest) {
  EXPECT_EQ(automatic(placements(even_pipeline(4, 2, 8, {1, 1, 1}))).winner, "zb-v");
  EXPECT_EQ(automatic(placements(even_pipeline(1, 1, 3, {1, 1, 1}))).winner, "1f1b");
}

TEST(Automatic, HoldsAThirdOfZbVForATenthMoreTime) {
  const Pipeline pipeline = even_pipeline(16, 2, 64, {1, 1, 1});
  const Found found = automatic(placements(pipeline), {.activations = 12, .tasks = 1'000'000});
  EXPECT_LE(found.makespan, 221.5) << found.winner;  // zb-v: 199.5 holding 32
  EXPECT_LE(peak(found.order), 12);
}

TEST(Automatic, SchedulesWithFewerStagesPerRankRunNeighboursAsOne) {
  const Pipeline pipeline = even_pipeline(4, 2, 8, {1, 1, 1});
  std::vector<std::string> names;
  for (const Placed& placed : placements(pipeline))
    for (const auto& [name, order] : fixed_orders(placed)) {
      names.push_back(name);
      EXPECT_EQ(order.rank_of_stage, placed.rank_of_stage) << name;
      if (name == "zb-h1") {
        EXPECT_EQ(word(placed), "2 stages per rank side by side");
        EXPECT_THAT(placed.rank_of_stage, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
        EXPECT_EQ(walk(order, pipeline.costs).makespan, 27);
        EXPECT_EQ(peak(order), 8);  // four micro-batches of two stages
      }
    }
  EXPECT_THAT(names, ElementsAre("1f1b", "zb-h1", "gpipe", "interleaved", "bfs", "zb-v", "dualpipe-v",
                                 "v-min", "v-half"));
}

TEST(Automatic, ActivationsOfLargerStagesCountForMore) {
  std::vector<Placed> placed = placements(even_pipeline(4, 1, 8, {1, 1, 1}));
  for (Placed& p : placements(even_pipeline(4, 2, 8, {2, 2, 2}))) placed.push_back(std::move(p));
  for (const std::int64_t limit : {8, 7, 6, 3, 2}) {
    const Found found = automatic(placed, {.activations = limit, .tasks = 100'000});
    EXPECT_EQ(found.placed, 0u) << limit;  // of half the cost
    EXPECT_LE(peak(found.order), limit / 2);
    EXPECT_TRUE(limit < 8 || found.winner == "zb-h1") << found.winner;  // which holds four
  }
}

TEST(Automatic, WithoutEffortOnlyTheFixedSchedulesAreLookedAt) {
  const auto placed = placements(even_pipeline(16, 4, 64, {1, 1.2, 0.8}, 0.05));
  const auto seconds = [](const auto& act) {
    const std::clock_t begin = std::clock();  // of this process: others may be busy too
    act();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  std::vector<std::string> names;
  const double of_fixed = seconds([&] {
    for (const Placed& p : placed)
      for (const auto& [name, order] : fixed_orders(p)) {
        walk(order, p.pipeline.costs);
        names.push_back(name);
      }
  });
  std::string winner;
  const double of_search = seconds([&] { winner = automatic(placed, {.tasks = 1}).winner; });
  EXPECT_THAT(names, Contains(winner));
  EXPECT_LT(of_search, 3 * of_fixed + 0.01);
}

TEST(Automatic, LetsTheGivenMakespanDecide) {
  const auto placed = placements(even_pipeline(4, 2, 8, {1, 1, 1}));
  const auto is_split = [](const Order& order) {
    return std::ranges::any_of(order.ranks[0],
                               [](const Task& t) { return t.what == OpKind::backward_input; });
  };
  // Where halves cost much more than wholes.
  const Found found = automatic(placed, {.tasks = 1}, [&](const Order& order, const Placed& on) {
    return walk(order, on.pipeline.costs).makespan + (is_split(order) ? 100 : 0);
  });
  EXPECT_EQ(found.winner, "interleaved");
  EXPECT_EQ(found.makespan, 28.5);
  EXPECT_EQ(word(placed[found.placed]), "2 stages per rank in loops");
}

TEST(Automatic, SaysTheLeastThatMustBeHeld) {
  EXPECT_THAT(
      [] {
        automatic(placements(even_pipeline(4, 2, 8, {1, 1, 1})), {.activations = 1});
      },
      ThrowsMessage<UserError>(HasSubstr("must hold one micro-batch, which is 2")));
  const Pipeline pipeline = even_pipeline(4, 2, 8, {1, 1, 1});
  EXPECT_EQ(peak(automatic(placements(pipeline), {.activations = 2, .tasks = 1000}).order), 2);
}

TEST(Automatic, GivesTheSameAnswerTwice) {
  const Pipeline pipeline = even_pipeline(5, 2, 7, {1, 1.7, 0.4}, 0.1);
  const Found found = automatic(placements(pipeline), {.activations = 7, .tasks = 500'000});
  EXPECT_THAT(found.winner, HasSubstr("improved"));
  EXPECT_EQ(found.order, automatic(placements(pipeline), {.activations = 7, .tasks = 500'000}).order);
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
