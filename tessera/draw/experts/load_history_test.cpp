#include "tessera/draw/experts/load_history.hpp"

#include <gmock/gmock.h>

#include "tessera/base/error.hpp"

namespace tessera::draw {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

// Two layers, numbered 3 and 4, of two experts each.
std::vector<LayerTokens> two_layers(double first, double second) {
  return {{3, {first, 8 - first}}, {4, {second, 8 - second}}};
}

TEST(LoadHistory, LoadsAreTokensOverTheirMean) {
  EXPECT_THAT(loads({1, 2, 3}), ElementsAre(0.5, 1, 1.5));
  EXPECT_THAT(loads({0, 0}), ElementsAre(0, 0));
}

TEST(LoadHistory, AStepIsAColumnWhileThereIsRoom) {
  LoadHistory history;
  history.add(1, two_layers(4, 6));
  history.add(2, two_layers(7, 4));
  ASSERT_EQ(history.columns().size(), 2u);
  EXPECT_EQ(
      history.columns()[1],
      (LoadColumn{.num_steps = 1, .tokens = {{7, 1}, {4, 4}}, .largest = {.worst = 1.75, .mean = 1.375}}));
  EXPECT_EQ(history.of_last_step(), (LargestLoads{.worst = 1.75, .mean = 1.375}));
  EXPECT_THAT(history.worst_of_layers(), ElementsAre(WorstLoad{1.75, 2, 3, 0}, WorstLoad{1.5, 1, 4, 0}));
  EXPECT_EQ(history.worst().layer, 3);
  EXPECT_EQ(history.num_experts(), 2u);
}

TEST(LoadHistory, ALayerWithoutTokensIsEvenAsInTheMetrics) {
  LoadHistory history;
  history.add(1, {{0, {0, 0, 0}}});
  EXPECT_EQ(history.of_last_step(), (LargestLoads{.worst = 1, .mean = 1}));
}

TEST(LoadHistory, MoreStepsThanColumnsAreSummedAndKeepTheirWorst) {
  LoadHistory history;
  const auto most = static_cast<std::int64_t>(panel_grid(2, 2).most_columns);
  for (std::int64_t step = 1; step <= 2 * most + 1; ++step)
    history.add(step, two_layers(step == 2 ? 8 : step % 2 == 0 ? 6 : 4, 4));
  EXPECT_EQ(history.steps_per_column(), 4);
  EXPECT_EQ(history.num_steps(), 2 * most + 1);
  ASSERT_EQ(history.columns().size(), static_cast<std::size_t>(most) / 2 + 1);
  const LoadColumn& first = history.columns()[0];
  EXPECT_EQ(first.num_steps, 4);
  EXPECT_THAT(first.tokens, ElementsAre(ElementsAre(4 + 8 + 4 + 6, 10), ElementsAre(16, 16)));
  EXPECT_EQ(first.largest.worst, 2);
  EXPECT_THAT(first.largest.mean, DoubleEq((1 + 1.5 + 1 + 1.25) / 4));
  EXPECT_EQ(history.columns().back().num_steps, 1);
  EXPECT_EQ(history.worst(), (WorstLoad{2, 2, 3, 0})) << "of a single step, though columns have several";
}

TEST(LoadHistory, StepsThatWereLostLeaveEmptyColumns) {
  LoadHistory history;
  history.add(5, two_layers(4, 4));
  history.add(8, two_layers(4, 4));
  std::vector<std::int64_t> steps;
  for (const LoadColumn& column : history.columns()) steps.push_back(column.num_steps);
  EXPECT_THAT(steps, ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(history.num_steps(), 2);
  history.add(1'000'000'000'000'000, two_layers(4, 4));
  EXPECT_LE(history.columns().size(), history.grid().most_columns) << "a gap of any length has room";
}

TEST(LoadHistory, TooManyLayersAreRefused) {
  LoadHistory history;
  EXPECT_THROW(history.add(1, std::vector<LayerTokens>(kMostLayers + 1, {0, {1, 1}})), UserError);
}

TEST(PanelGrid, FewLayersLieBelowEachOtherAndManySideBySide) {
  const PanelGrid small = panel_grid(2, 8);
  EXPECT_EQ(small.across, 1u);
  EXPECT_EQ(small.experts_per_row, 1u);
  EXPECT_EQ(small.row_height, 14);
  const PanelGrid large = panel_grid(61, 256);
  EXPECT_EQ(large.across, 4u);
  EXPECT_EQ(large.down, 16u);
  EXPECT_EQ(large.experts_per_row, 4u);
  EXPECT_EQ(large.panel_height(), 64);
}

TEST(PanelGrid, EveryExpertHasARowOfAPixelAtLeastAndEveryPanelRoomForItsName) {
  for (const std::size_t num_layers : {1, 2, 7, 24, 61, 256})
    for (const std::size_t num_experts : {1, 2, 3, 8, 60, 64, 100, 128, 129, 256, 1000}) {
      const PanelGrid grid = panel_grid(num_layers, num_experts);
      EXPECT_GE(grid.row_height, 1) << num_layers << " x " << num_experts;
      EXPECT_GE(grid.num_rows * grid.experts_per_row, num_experts) << num_layers << " x " << num_experts;
      EXPECT_LT((grid.num_rows - 1) * grid.experts_per_row, num_experts)
          << num_layers << " x " << num_experts;
      EXPECT_GE(grid.panel_height(), 28) << num_layers << " x " << num_experts;
      EXPECT_LE(grid.panel_height(), 128) << num_layers << " x " << num_experts;
      EXPECT_GE(grid.across * grid.down, num_layers);
      EXPECT_GE(grid.panel_width, 2.0 * static_cast<double>(grid.most_columns));
    }
}

}  // namespace
}  // namespace tessera::draw
