#include "tessera/draw/experts/experts_picture.hpp"

#include <gmock/gmock.h>

#include "tessera/base/text.hpp"
#include "tessera/draw/experts/heat.hpp"

namespace tessera::draw {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Each step's tokens of one layer.
ExpertsPicture one_layer(const std::vector<std::vector<double>>& steps) {
  ExpertsPicture out{.source = "a<b/metrics.jsonl"};
  std::int64_t step = 0;
  for (const auto& tokens : steps) out.history.add(++step, {{5, tokens}});
  return out;
}

ExpertsPicture even_picture(std::size_t num_layers, std::size_t num_experts, std::int64_t num_steps) {
  ExpertsPicture out{.source = "metrics.jsonl"};
  std::vector<LayerTokens> layers(num_layers, {0, std::vector<double>(num_experts, 1)});
  for (std::size_t i = 0; i < num_layers; ++i) layers[i].layer = static_cast<std::int64_t>(i);
  for (std::int64_t step = 1; step <= num_steps; ++step) out.history.add(step, layers);
  return out;
}

TEST(Heat, IsTheSameFarFromEvenAboveAndBelow) {
  const std::pair<double, int> cases[] = {{0, 0},   {0.01, 1}, {0.25, 2}, {0.5, 3},  {0.7, 4},
                                          {0.8, 5}, {1, 5},    {1.2, 5},  {1.25, 6}, {1.5, 7},
                                          {2, 8},   {3.9, 8},  {4.0, 9},  {300, 9}};
  for (const auto& [load, heat] : cases) EXPECT_EQ(heat_of(load), heat) << load;
  for (std::size_t i = 0; i < kHeatBounds.size(); ++i)
    EXPECT_DOUBLE_EQ(kHeatBounds[i] * kHeatBounds[kHeatBounds.size() - 1 - i], 1);
}

// Readable without colours too: the farther from even, the darker on light paper and the lighter on dark.
TEST(Heat, ColoursGrowStrongerAwayFromEven) {
  for (const bool on_dark : {false, true})
    for (int heat = 0; heat + 1 < kNumHeats; ++heat) {
      const double step = luminance(heat_colour(heat + 1, on_dark)) - luminance(heat_colour(heat, on_dark));
      EXPECT_GT((heat < kEvenHeat) == on_dark ? -step : step, 0.01) << heat << (on_dark ? " on dark" : "");
    }
}

TEST(ExpertsPicture, CellsHaveTheHeatOfTheirLoad) {
  const std::string svg = to_svg(one_layer({{4, 4, 4, 4}, {0, 2, 4, 10}, {0, 1, 4, 11}}));
  EXPECT_EQ(times_in(svg, "<g class=\"layer\">"), 1u);
  // Column and row of where it begins, and over how many columns it goes.
  EXPECT_THAT(svg, HasSubstr("<path class=\"heat0\" d=\"M1 0h2\"/>")) << "no token";
  EXPECT_THAT(svg, HasSubstr("<path class=\"heat3\" d=\"M1 1h1\"/>")) << "0.5";
  EXPECT_THAT(svg, HasSubstr("<path class=\"heat2\" d=\"M2 1h1\"/>")) << "0.25";
  EXPECT_THAT(svg, HasSubstr("<path class=\"heat8\" d=\"M1 3h2\"/>")) << "2.5 and 2.75";
  EXPECT_EQ(times_in(svg, "<path class=\"heat"), 4u) << "what is even has the colour of the ground";
  EXPECT_THAT(svg, AllOf(HasSubstr("--heat8: #dd6b12;"), HasSubstr("path.heat8 { stroke: var(--heat8) }")));
  EXPECT_THAT(svg, HasSubstr("layer 5: at most 2.75 times the mean, expert 3 in step 3"));
}

TEST(ExpertsPicture, TitleAndSentencesTellWhatTheFileHas) {
  const ExpertsPicture picture = one_layer({{4, 4, 4, 4}, {1, 3, 4, 8}});
  EXPECT_EQ(picture.title(), "Load of experts: 1 layer x 4 experts, 2 steps");
  EXPECT_EQ(
      picture.summary(),
      "Busiest expert: at worst 2.00 times the mean of its layer (layer 5, expert 3, step 2); in the last "
      "step 2.00 times.");
  const std::string svg = to_svg(picture);
  EXPECT_THAT(svg, AllOf(HasSubstr("From a&lt;b/metrics.jsonl, steps 1 to 2."), Not(HasSubstr("a<b"))));
  EXPECT_THAT(svg, HasSubstr("a row is an expert, 0 at the top; a column is a step."));
}

TEST(ExpertsPicture, APanelForEachLayerAndACurveOfTheWorstAndOfTheMean) {
  const std::string few = to_svg(even_picture(2, 8, 3)), many = to_svg(even_picture(61, 256, 3));
  EXPECT_EQ(times_in(few, "<g class=\"layer\">"), 2u);
  EXPECT_EQ(times_in(many, "<g class=\"layer\">"), 61u);
  EXPECT_THAT(many, AllOf(HasSubstr(">layer 0<"), HasSubstr(">layer 60<")));
  for (const auto* svg : {&few, &many})
    EXPECT_THAT(*svg, AllOf(HasSubstr("<path class=\"curve worst\""), HasSubstr("<path class=\"curve mean\""),
                            Not(HasSubstr("<path class=\"heat"))));
  EXPECT_THAT(to_svg(one_layer({{1, 2}})), Not(HasSubstr("<path class=\"curve mean\"")));
}

TEST(ExpertsPicture, ExpertsThatShareARowHaveTheHeatOfTheBusiest) {
  ExpertsPicture picture{.source = "metrics.jsonl"};
  std::vector<LayerTokens> layers(61, {0, std::vector<double>(256, 1)});
  layers[0].tokens[9] = 3;  // the second of four in row 2
  layers[0].tokens[10] = 0;
  picture.history.add(1, layers);
  const std::string svg = to_svg(picture);
  EXPECT_THAT(svg, HasSubstr("<path class=\"heat8\" d=\"M0 2h1\"/>"));
  EXPECT_EQ(times_in(svg, "<path class=\"heat"), 1u);
  EXPECT_THAT(svg, HasSubstr("a row is 4 experts, the first ones at the top, in the colour of the busiest"));
}

TEST(ExpertsPicture, ManyStepsShareColumnsAndThePictureSaysSo) {
  const ExpertsPicture picture = even_picture(2, 8, 1000);
  EXPECT_THAT(to_svg(picture), AllOf(HasSubstr("a column is 4 steps, summed."), HasSubstr(" 1000 steps<"),
                                     HasSubstr("worst layer, worst step of a column")));
}

TEST(ExpertsPicture, StepsThatTheFileLacksAreHatched) {
  ExpertsPicture picture{.source = "metrics.jsonl"};
  picture.history.add(1, {{0, {1, 1}}});
  picture.history.add(4, {{0, {1, 1}}});
  const std::string svg = to_svg(picture);
  EXPECT_EQ(times_in(svg, "<rect class=\"idle\""), 3u) << "two columns and the legend";
  EXPECT_THAT(svg, AllOf(HasSubstr(">not in the file<"), HasSubstr("steps 1 to 4, of which it lacks 2.")));
  EXPECT_EQ(times_in(svg, "id=\"hatched\""), 1u);
  EXPECT_THAT(to_svg(even_picture(1, 2, 4)), Not(HasSubstr("<rect class=\"idle\"")));
}

}  // namespace
}  // namespace tessera::draw
