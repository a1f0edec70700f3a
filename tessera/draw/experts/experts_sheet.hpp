// What the parts of a picture of experts share, and these parts.
#pragma once

#include "tessera/draw/experts/load_history.hpp"
#include "tessera/draw/sheet.hpp"

namespace tessera::draw {

inline constexpr double kContentWidth = 1008;  // of the sheet, within its margins

std::string rect_at(const std::string& classes, double x, double y, double width, double height);
// To a hundredth: "0.67", "2".
std::string number_text(double x);

// Steps from left to right.
struct StepAxis {
  double left = 0, width = 0;
  std::int64_t first_step = 0, last_step = 0;
  std::int64_t steps_per_column = 1;
  std::size_t num_columns = 1;

  // The left edge of a column, or of the right margin.
  double x(std::size_t column) const {
    return left + width * static_cast<double>(column) / static_cast<double>(num_columns);
  }
  // The middle of a step.
  double x_of_step(std::int64_t step) const {
    return left + width * (static_cast<double>(step - first_step) + 0.5) /
                      (static_cast<double>(steps_per_column) * static_cast<double>(num_columns));
  }
};
StepAxis step_axis(const LoadHistory& history, double left, double width);
// The word and numbers of steps below an axis.
void add_step_numbers(Sheet& sheet, const StepAxis& axis, double y);

// Each below the one before: the panels of all layers; the curve of the largest loads with its scales.
void add_layers(Sheet& sheet, const LoadHistory& history);
void add_curve(Sheet& sheet, const LoadHistory& history);

}  // namespace tessera::draw
