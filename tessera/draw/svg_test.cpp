#include "tessera/draw/svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/golden.hpp"
#include "tessera/draw/order_picture.hpp"
#include "tessera/draw/palette.hpp"
#include "tessera/draw/sheet.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/testing/short_forms.hpp"

namespace tessera::draw {
namespace {

using program::even_pipeline;
using testing::HasSubstr;

Picture small() {
  const auto p = even_pipeline(2, 1, 2, {1, 1, 1}, 0.25);
  return picture_of(program::one_forward_one_backward(p), p.costs, "1f1b, 2 ranks, 2 micro-batches");
}

Picture two_panels() {
  const auto p = even_pipeline(2, 2, 2, {1, 1, 1}, 0), slower = even_pipeline(2, 2, 2, {1, 1, 1}, 0.5);
  Picture out = picture_of(program::zero_bubble_v(p), p.costs, "zb-v <predicted & measured>");
  out.panels.push_back(picture_of(program::zero_bubble_v(p), slower.costs, "").panels[0]);
  out.panels[1].title = "measured, step 3";
  out.unit = Unit::seconds;
  out.notes = {"Of a trace."};
  return out;
}

Picture large() {
  const auto p = even_pipeline(8, 2, 32, {1, 1, 1}, 0.1);
  return picture_of(program::zero_bubble_v(p), p.costs, "zb-v, 8 ranks, 32 micro-batches");
}

struct Element {
  std::string classes, text;
  double x = 0, y = 0, width = 0, height = 0;
};

std::vector<Element> elements(const std::string& svg, const std::string& pattern) {
  std::vector<Element> out;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(svg.begin(), svg.end(), regex), end; at != end; ++at) {
    Element element{(*at)[1], at->size() > 5 ? "" : (*at)[4].str(), std::stod((*at)[2]), std::stod((*at)[3])};
    if (at->size() > 5) element.width = std::stod((*at)[4]), element.height = std::stod((*at)[5]);
    out.push_back(element);
  }
  return out;
}

std::vector<Element> texts(const std::string& svg) {
  return elements(svg, R"re(<text class="([^"]*)" x="([^"]*)" y="([^"]*)"[^>]*>([^<]*)<)re");
}

std::vector<Element> bars(const std::string& svg) {
  return elements(
      svg, R"re(<rect class="bar ([^"]*)" x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)">)re");
}

std::size_t num_bars(const Picture& picture) {
  std::size_t out = 0;
  for (const Panel& panel : picture.panels)
    for (const Lanes& rank : panel.ranks)
      for (const Row& row : rank.rows)
        out += static_cast<std::size_t>(
            std::ranges::count_if(row.bars, [](const Bar& bar) { return takes_time(bar); }));
  return out;
}

TEST(Svg, SmallPicturesLookAsReviewed) {
  EXPECT_EQ(to_svg(small()), golden("tessera/draw/golden/small.svg", to_svg(small())));
  EXPECT_EQ(to_svg(two_panels()), golden("tessera/draw/golden/two_panels.svg", to_svg(two_panels())));
}

TEST(Svg, EveryBarIsDrawnWhereItsTimeIs) {
  for (const Picture& picture : {small(), two_panels(), large()})
    EXPECT_EQ(bars(to_svg(picture)).size(), num_bars(picture));
  const auto drawn = bars(to_svg(small()));
  const Panel panel = small().panels[0];
  const double scale = 760 / panel.end;
  std::size_t at = 0;
  for (const Lanes& rank : panel.ranks)
    for (const Row& row : rank.rows)
      for (const Bar& bar : row.bars) {
        if (!takes_time(bar)) continue;
        EXPECT_NEAR(drawn[at].x, kGutter + bar.start * scale, 0.06);
        EXPECT_NEAR(drawn[at].width, (bar.end - bar.start) * scale, 0.06);
        ++at;
      }
}

TEST(Svg, NumbersLieWithinTheirBars) {
  for (const Picture& picture : {small(), two_panels(), large()}) {
    const std::string svg = to_svg(picture);
    const auto drawn = bars(svg);
    std::size_t found = 0;
    for (const Element& text : texts(svg)) {
      if (!text.classes.starts_with("micro")) continue;
      const double font = text.classes.ends_with("small") ? 8 : 11;
      const double half = static_cast<double>(text.text.size()) * kDigitEms * font / 2;
      EXPECT_TRUE(std::ranges::any_of(drawn,
                                      [&](const Element& bar) {
                                        return bar.x <= text.x - half && text.x + half <= bar.x + bar.width &&
                                               bar.y <= text.y - font * 0.75 && text.y <= bar.y + bar.height;
                                      }))
          << text.text << " at " << text.x << ", " << text.y;
      ++found;
    }
    if (picture.panels[0].ranks.size() == 2) {
      EXPECT_EQ(found, std::ranges::count_if(
                           drawn, [](const Element& bar) { return bar.height == kComputeHeight; }));
    }
  }
}

TEST(Svg, NoTextLiesOutsideTheSheet) {
  Picture long_names = small();
  long_names.title = std::string(400, 'w');
  long_names.notes = {std::string(300, 'm') + " " + std::string(40, 'n')};
  long_names.panels[0].ranks[0].name = "rank 1234567890123456789";
  for (const Picture& picture : {small(), two_panels(), large(), long_names}) {
    const std::string svg = to_svg(picture);
    std::smatch box;
    ASSERT_TRUE(std::regex_search(svg, box, std::regex("viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"")));
    for (const Element& text : texts(svg)) {
      EXPECT_GE(text.x, 0) << text.text;
      EXPECT_LE(text.x, std::stod(box[1])) << text.text;
      EXPECT_GE(text.y, 8) << text.text;
      EXPECT_LE(text.y, std::stod(box[2]) - 3) << text.text;
      if (text.classes == "title") {
        EXPECT_LE(static_cast<double>(text.text.size()), std::stod(box[1]) / 9.6 + 2);
      }
    }
  }
}

TEST(Svg, WhatTakesNoTimeIsLeftOut) {
  Picture with_steps = small();
  const double end = with_steps.panels[0].makespan;
  with_steps.panels[0].ranks[0].rows[0].bars.push_back(
      {.word = "s0", .what = program::OpKind::step, .start = end, .end = end});
  EXPECT_EQ(to_svg(with_steps), to_svg(small()));
  Picture picture = small();
  for (Lanes& rank : picture.panels[0].ranks)
    for (Row& row : rank.rows)
      for (Bar& bar : row.bars)
        if (row.kind == program::LaneKind::communication) bar.end = bar.start;
  EXPECT_THAT(to_svg(small()), HasSubstr("class=\"lane-ground\""));
  EXPECT_THAT(to_svg(picture), testing::Not(HasSubstr("class=\"lane-ground\"")));
}

TEST(Svg, TextOfUsersIsEscaped) {
  EXPECT_EQ(xml_escaped("a<b & \"c\">\x01"), "a&lt;b &amp; &quot;c&quot;&gt; ");
  EXPECT_THAT(to_svg(two_panels()), HasSubstr("<title>zb-v &lt;predicted &amp; measured&gt;</title>"));
}

TEST(Svg, ColoursOfTextOnBarsAreThoseOfThePalette) {
  const std::string svg = to_svg(small());
  for (int shade = 0; shade < kNumShades; ++shade) {
    const Colour colour = fill(program::OpKind::forward, shade);
    EXPECT_THAT(svg, HasSubstr(cat(".forward", shade, " { fill: ", to_text(colour), " } .on-forward", shade,
                                   " { fill: ", to_text(ink(colour)), " }")));
  }
}

TEST(Svg, APictureThatNoViewerCouldShowIsRefused) {
  Picture picture = small();
  picture.panels[0].ranks[0].rows[0].bars.resize(200'001, {.word = "0F0", .micro = 0, .end = 1});
  EXPECT_THROW(to_svg(picture), UserError);
}

TEST(Svg, TicksAreRoundNumbers) {
  EXPECT_EQ(tick_step(33, 11), 5);
  EXPECT_EQ(tick_step(10, 10), 1);
  EXPECT_EQ(tick_step(0.32, 10), 0.05);
  EXPECT_EQ(tick_step(95, 10), 10);
}

}  // namespace
}  // namespace tessera::draw
