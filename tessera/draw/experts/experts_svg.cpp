#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/draw/experts/experts_picture.hpp"
#include "tessera/draw/experts/experts_sheet.hpp"
#include "tessera/draw/experts/heat.hpp"

namespace tessera::draw {
namespace {

constexpr double kCaptionWidth = 268, kSwatchWidth = 46, kSwatchHeight = 13, kSwatchGap = 14;

constexpr char kStyle[] =
    R"(.cells path { fill: none; stroke-width: 1 } .layer { shape-rendering: crispEdges }
.from { text-anchor: start } .to { text-anchor: end }
.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round }
.worst { stroke: #d55e00 } .mean { stroke: #0072b2 }
@media (prefers-color-scheme: dark) { .worst { stroke: #ec8f35 } .mean { stroke: #56b4e9 } }
)";

void add_heading(Sheet& sheet, const ExpertsPicture& picture) {
  sheet.y = kMargin + 14;
  sheet.body += text_at(kMargin, sheet.y, "title", picture.title());
  sheet.y += 4;
  const auto add = [&](const std::string& text, const char* classes) {
    for (const std::string& line : wrapped(text, 12, kContentWidth * 1.15))
      sheet.body += text_at(kMargin, sheet.y += 17, classes, line);
  };
  add(picture.summary(), "numbers");
  for (const std::string& note : picture.notes()) add(note, "numbers quiet");
  sheet.y += 16;
}

void add_heat_scale(Sheet& sheet, bool lacks_steps) {
  sheet.body += text_at(kMargin, sheet.y + 10.5, "name", "Tokens of an expert \u00f7 mean of its layer");
  double x = kMargin + kCaptionWidth;
  const auto add_swatch = [&](const std::string& classes, double width) {
    sheet.body += rect_at(classes, x, sheet.y, width, kSwatchHeight);
    x += width;
  };
  const auto add_label = [&](double at, const std::string& label) {
    sheet.body += text_at(at, sheet.y + kSwatchHeight + 12, "tick", label);
  };
  add_label(x + kSwatchWidth / 2, "no token");
  add_swatch(heat_class(kNoTokenHeat), kSwatchWidth);
  const double left = x += kSwatchGap;
  for (int heat = 1; heat < kNumHeats; ++heat) {
    add_swatch(heat_class(heat), kSwatchWidth);
    if (heat + 1 < kNumHeats) add_label(x, number_text(kHeatBounds[static_cast<std::size_t>(heat - 1)]));
  }
  sheet.body += rect_at("grid", left, sheet.y, x - left, kSwatchHeight);
  sheet.body += text_at(left + kSwatchWidth * (kEvenHeat - 0.5), sheet.y + 10, "tick", "even");
  if (lacks_steps) {
    x += kSwatchGap;
    add_label(x + kSwatchWidth / 2, "not in the file");
    add_swatch("idle", kSwatchWidth);
  }
  sheet.y += kSwatchHeight + 32;
}

}  // namespace

std::string to_svg(const ExpertsPicture& picture) {
  Sheet sheet;
  sheet.plot_width = kContentWidth + kMargin - kGutter;
  const LoadHistory& history = picture.history;
  add_heading(sheet, picture);
  const auto lacks = [](const LoadColumn& column) { return column.num_steps == 0; };
  add_heat_scale(sheet, std::ranges::any_of(history.columns(), lacks));
  add_layers(sheet, history);
  add_curve(sheet, history);
  return svg_file(picture.title(), heat_style() + kStyle, sheet.width(), sheet.y + kMargin,
                  hatched_pattern() + sheet.body);
}

std::string rect_at(const std::string& classes, double x, double y, double width, double height) {
  return cat("<rect class=\"", classes, "\" x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(width),
             "\" height=\"", px(height), "\"/>\n");
}

std::string number_text(double x) {
  std::string out = fixed(x, 2);
  while (out.ends_with('0')) out.pop_back();
  if (out.ends_with('.')) out.pop_back();
  return out;
}

}  // namespace tessera::draw
