#include <algorithm>
#include <cmath>
#include <functional>

#include "tessera/base/text.hpp"
#include "tessera/draw/experts/experts_sheet.hpp"

namespace tessera::draw {
namespace {

constexpr double kCurveHeight = 120;
constexpr double kLeastTop = 1.2;   // of the scale: an even run is a line at its foot
constexpr double kStepPixels = 56;  // between the first step's number and the next
constexpr double kTickPixels = 17;  // between numbers of the scale

// Loads on a logarithmic scale from 1 on.
struct LoadAxis {
  double floor = 0, top_load = 1;
  double y(double load) const {
    return floor - kCurveHeight * std::log(std::max(load, 1.0)) / std::log(top_load);
  }
};

std::vector<double> round_loads(double most) {
  std::vector<double> out = {1, 1.1, 1.2, 1.5};
  for (double power = 1; power <= most; power *= 10)
    for (const double factor : {2, 3, 5, 10}) out.push_back(power * factor);
  return out;
}

// The next round number if it is near.
double top_of_scale(double worst) {
  const auto numbers = round_loads(worst);
  const auto next = std::ranges::lower_bound(numbers, std::max(worst, kLeastTop));
  return *next <= 1.3 * worst ? *next : worst * 1.04;
}

// Round numbers, as many as there is room for.
std::vector<double> load_ticks(const LoadAxis& axis) {
  std::vector<double> out;
  for (const double load : round_loads(axis.top_load))
    if (load <= axis.top_load && (out.empty() || axis.y(out.back()) - axis.y(load) >= kTickPixels))
      out.push_back(load);
  return out;
}

// Through the middles of columns, to the edges of the first and the last of those that touch.
std::string curve_path(const std::vector<LoadColumn>& columns, const StepAxis& steps,
                       const std::function<double(const LoadColumn&)>& y) {
  const auto is_known = [&](std::size_t i) { return i < columns.size() && columns[i].num_steps > 0; };
  std::string out;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!is_known(i)) continue;
    const std::string height = px(y(columns[i]));
    if (i == 0 || !is_known(i - 1)) out += cat("M", px(steps.x(i)), " ", height);
    out += cat("L", px((steps.x(i) + steps.x(i + 1)) / 2), " ", height);
    if (!is_known(i + 1)) out += cat("H", px(steps.x(i + 1)));
  }
  return out;
}

// A line of its colour, and what it is. Returns where the next may begin.
double add_key(Sheet& sheet, double x, const char* classes, const std::string& text) {
  sheet.body += cat("<path class=\"curve ", classes, "\" d=\"M", px(x), " ", px(sheet.y + 10), "h20\"/>\n");
  sheet.body += text_at(x + 26, sheet.y + 14, "legend", text);
  return x + 26 + kLetterEms * 11 * static_cast<double>(text.size()) + 14;
}

void add_heading_of_curve(Sheet& sheet, const LoadHistory& history) {
  constexpr std::string_view kTitle = "Busiest expert of a layer \u00f7 mean of the layer";
  sheet.body += text_at(kMargin, sheet.y + 14, "panel", kTitle);
  const bool is_binned = history.steps_per_column() > 1;
  const bool is_one = history.worst_of_layers().size() == 1;
  const double x =
      add_key(sheet, kMargin + 356, "worst",
              cat(is_one ? "the one layer" : "worst layer", is_binned ? ", worst step of a column" : ""));
  if (!is_one) add_key(sheet, x, "mean", cat("mean over layers", is_binned ? " and steps" : ""));
}

}  // namespace

StepAxis step_axis(const LoadHistory& history, double left, double width) {
  return {.left = left,
          .width = width,
          .first_step = history.first_step(),
          .last_step = history.last_step(),
          .steps_per_column = history.steps_per_column(),
          .num_columns = history.columns().size()};
}

void add_step_numbers(Sheet& sheet, const StepAxis& axis, double y) {
  const double range = static_cast<double>(axis.last_step - axis.first_step + 1);
  const auto stride = static_cast<std::int64_t>(std::max(1.0, tick_step(range, axis.width / 80)));
  const auto add = [&](std::int64_t step) {
    const std::string number = cat(step);
    const double half = kDigitEms * 10 * static_cast<double>(number.size()) / 2;
    const double least = axis.left - 2 + half, most = axis.left + axis.width + kMargin / 2 - half;
    sheet.body += text_at(std::clamp(axis.x_of_step(step), least, most), y, "tick", number);
  };
  sheet.body += text_at(axis.left - 8, y, "lane", "step");
  const std::int64_t first = (axis.first_step + stride - 1) / stride * stride;
  if (axis.x_of_step(first) - axis.x_of_step(axis.first_step) > kStepPixels) add(axis.first_step);
  for (std::int64_t step = first; step <= axis.last_step; step += stride) add(step);
}

void add_curve(Sheet& sheet, const LoadHistory& history) {
  const PanelGrid& grid = history.grid();
  add_heading_of_curve(sheet, history);
  const double left = kMargin + grid.label_width, width = kContentWidth - grid.label_width;
  const StepAxis steps = step_axis(history, left, width);
  const LoadAxis axis{sheet.y + 34 + kCurveHeight, top_of_scale(history.worst().load)};
  for (const double load : load_ticks(axis)) {
    sheet.body += text_at(left - 8, axis.y(load) + 3, "lane", number_text(load));
    sheet.body +=
        cat("<path class=\"grid\" d=\"M", px(left), " ", px(axis.y(load)), "h", px(width), "\"/>\n");
  }
  const auto add = [&](const char* classes, double LargestLoads::*which) {
    const auto y = [&](const LoadColumn& column) { return axis.y(column.largest.*which); };
    sheet.body +=
        cat("<path class=\"curve ", classes, "\" d=\"", curve_path(history.columns(), steps, y), "\"/>\n");
  };
  if (history.worst_of_layers().size() > 1) add("mean", &LargestLoads::mean);
  add("worst", &LargestLoads::worst);
  add_step_numbers(sheet, steps, axis.floor + 15);
  sheet.y = axis.floor + 15;
}

}  // namespace tessera::draw
