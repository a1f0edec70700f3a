#include "tessera/metrics/display/frame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/testing/golden.hpp"
#include "tessera/base/text.hpp"
#include "tessera/metrics/display/curve.hpp"

namespace tessera::metrics {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

Watched halfway(std::size_t num_ranks = 2) {
  Watched watched{.title = {.name = "small",
                            .about = "10.1M parameters, bf16, 2 ranks (dp 2), 2 x 4 x 256 tokens a rank",
                            .place = "runs/small",
                            .peak_source = "measured, bf16 matrix product",
                            .steps = 300,
                            .ranks = static_cast<std::int64_t>(num_ranks)}};
  for (int step = 1; step <= 150; ++step) watched.losses.push_back(1.5 + 4 / std::sqrt(step));
  watched.last = StepFacts{.step = 150,
                           .steps = 300,
                           .loss = watched.losses.back(),
                           .tokens = 4096,
                           .gradient_norm = 0.613,
                           .learning_rate = 7.5e-4,
                           .step_seconds = 0.5,
                           .left_seconds = 75,
                           .exposed_seconds = 0.02,
                           .model_flops = 2.5e11,
                           .hardware_flops = 3e11,
                           .peak_flops_per_second = 1e12};
  for (std::size_t rank = 0; rank < num_ranks; ++rank)
    watched.last->resident_bytes.push_back(static_cast<std::int64_t>(300 + 10 * rank) << 20);
  return watched;
}

std::string text(const Watched& watched, const Canvas& canvas) {
  std::string out;
  for (const auto& line : frame(watched, canvas)) out += line.rendered(canvas.width, canvas.colours) + "\n";
  return out;
}

TEST(Frame, LooksAsItWasReviewed) {
  for (const auto& [name, canvas] :
       std::vector<std::pair<std::string, Canvas>>{{"80", {.width = 80, .colours = false}},
                                                   {"200", {.width = 200, .colours = false}},
                                                   {"ascii", {.colours = false, .unicode = false}},
                                                   {"40", {.width = 40, .colours = false}}}) {
    const std::string now = text(halfway(), canvas);
    EXPECT_EQ(now, golden(cat("tessera/metrics/golden/frame_", name, ".txt"), now));
  }
}

TEST(Frame, NoLineIsWiderThanTheTerminalAndNoneIsTooMany) {
  for (int width = 1; width <= 220; width += 3)
    for (const int height : {2, 5, 24})
      for (const bool unicode : {true, false}) {
        const Canvas canvas{.width = width, .height = height, .colours = false, .unicode = unicode};
        const auto lines = frame(halfway(), canvas);
        EXPECT_LE(static_cast<int>(lines.size()), std::max(1, height - 1));
        for (const auto& line : lines) EXPECT_LE(columns(line.rendered(width, false)), width) << width;
      }
}

TEST(Frame, SaysHowLongAStepTakesThatDoesNotEnd) {
  auto watched = halfway();
  EXPECT_THAT(text(watched, {}), HasSubstr("1m15s left"));
  watched.since_step_seconds = 5;
  EXPECT_THAT(text(watched, {}), HasSubstr("step 151 for 5.0s"));
  watched.ending = "done in 3m20s";
  EXPECT_THAT(text(watched, {}), HasSubstr("done in 3m20s"));
  Watched fresh{.title = {.steps = 10}, .since_step_seconds = 1};
  EXPECT_THAT(text(fresh, {}), HasSubstr("step 1 for 1.0s"));
}

TEST(Frame, ManyRanksAreLeastMedianAndMost) {
  const std::string shown = text(halfway(64), {.width = 200, .colours = false});
  EXPECT_THAT(shown, HasSubstr("least 300 MiB   median 620 MiB   most 930 MiB   of 64 ranks"));
}

TEST(Frame, ColoursAreOnlyThereWhenWanted) {
  EXPECT_THAT(text(halfway(), {.colours = true}), HasSubstr("\x1b["));
  EXPECT_THAT(text(halfway(), {.colours = false}), Not(HasSubstr("\x1b")));
}

TEST(Frame, StepsThatWereNotTakenStandOut) {
  auto watched = halfway();
  watched.last->steps_not_taken = 3;
  watched.last->loss = std::numeric_limits<double>::quiet_NaN();
  watched.losses.back() = watched.last->loss;
  EXPECT_THAT(text(watched, {}), HasSubstr("\x1b[1;31m3\x1b[0m"));
}

TEST(StyledLine, IsMeasuredInColumnsAndCutThere) {
  StyledLine line;
  line.add("ab\x1b[2J\n", Style::strong).add("⠉é漢", Style::accent);
  EXPECT_EQ(line.width(), 7 + 1 + 1 + 2);
  EXPECT_EQ(line.rendered(11, false), "ab?[2J?⠉é漢");
  EXPECT_EQ(line.rendered(10, false), "ab?[2J?⠉é") << "half a character is none";
  EXPECT_EQ(line.rendered(1, true), "\x1b[1ma\x1b[0m");
}

TEST(StyledLine, ShowsNothingThatSteersATerminalOrIsNoUtf8) {
  const std::pair<std::string_view, std::string_view> table[] = {
      {"a\x7f\r\tb", "a???b"},
      {"\xc2\x80\xc2\x9b"
       "2J\xc2\x9f",
       "????2J??"},  // C1 as UTF-8
      {"\x80\x9b"
       "2J\x9f",
       "??2J?"},                                              // and raw
      {"\xc2\xa0\xc3\xa9", "\xc2\xa0\xc3\xa9"},               // the first that is none, and é
      {"\xc0\x9b\xe0\x80\x9b\xf0\x80\x80\x9b", "?????????"},  // escape, spelt too long
      {"\xe2\xa0", "??"},                                     // cut short
      {"\xe2\x1b[A", "??[A"},
      {"\xed\xa0\x80", "???"},  // a surrogate
      {"\xf4\x90\x80\x80\xff", "?????"},
      {"\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", "\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"}};
  for (const auto& [text, shown] : table) {
    EXPECT_EQ(StyledLine().add(text).rendered(80, false), shown);
    EXPECT_EQ(StyledLine().add_right(text, 20).width(), 20) << shown;
  }
}

TEST(Curve, FallsFromTheTopLeftToTheBottomRight) {
  const auto curve = draw_curve(std::vector<double>{3, 2, 1}, 3, 3, false);
  EXPECT_EQ(curve.rows, (std::vector<std::string>{"*  ", " * ", "  *"}));
  EXPECT_EQ(curve.most, 3);
  EXPECT_EQ(curve.least, 1);
  EXPECT_EQ(draw_curve(std::vector<double>{1, 0}, 2, 1, true).rows, (std::vector<std::string>{"⠑⢄"}));
}

TEST(Curve, AveragesManyValuesAndJoinsFewOnes) {
  const auto many = draw_curve(std::vector<double>{4, 2, 1, 1}, 2, 2, false);
  EXPECT_EQ(many.most, 3);
  EXPECT_EQ(many.least, 1);
  const auto few = draw_curve(std::vector<double>{0, 4}, 5, 5, false);
  EXPECT_EQ(few.rows, (std::vector<std::string>{"    *", "   * ", "  *  ", " *   ", "*    "}));
}

TEST(Curve, WhatIsNotFiniteIsAGapAndNothingAtAllIsEmpty) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(draw_curve(std::vector<double>{1, nan, 2}, 3, 2, false).rows,
            (std::vector<std::string>{"  *", "*  "}));
  EXPECT_EQ(draw_curve(std::vector<double>{1, 1, nan, 2, 2, 2}, 3, 2, false).rows[0], "  *")
      << "also among others that are averaged with it";
  EXPECT_EQ(draw_curve({}, 3, 1, false).rows, (std::vector<std::string>{"   "}));
  EXPECT_EQ(draw_curve(std::vector<double>{nan, nan}, 2, 1, true).rows, (std::vector<std::string>{"  "}));
}

}  // namespace
}  // namespace tessera::metrics
