#include "tessera/draw/experts/panel_grid.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/draw/experts/experts_sheet.hpp"

namespace tessera::draw {
namespace {

constexpr double kLeastColumn = 2, kLeastRow = 1;   // pixels
constexpr double kMostRow = 14, kLeastPanel = 28;   // a name and a number fit beside it
constexpr double kTallPanel = 128, kLowPanel = 64;  // at most, below each other and side by side
constexpr double kWideLabel = 108, kNarrowLabel = 60;
constexpr double kMostHeight = 1120;  // of all panels, while more fit side by side
constexpr std::size_t kMostAcross = 4;

std::size_t parts_of(std::size_t whole, std::size_t part) { return (whole + part - 1) / part; }

PanelGrid grid_of(std::size_t num_layers, std::size_t num_experts, std::size_t across) {
  PanelGrid out{.across = across, .down = parts_of(num_layers, across)};
  const double height = across == 1 ? kTallPanel : kLowPanel;
  out.experts_per_row = parts_of(num_experts, static_cast<std::size_t>(height / kLeastRow));
  out.num_rows = parts_of(num_experts, out.experts_per_row);
  const double rows = static_cast<double>(out.num_rows);
  out.row_height = std::clamp(std::floor(height / rows), std::ceil(kLeastPanel / rows),
                              std::max(kMostRow, std::ceil(kLeastPanel / rows)));
  out.label_width = across == 1 ? kWideLabel : kNarrowLabel;
  const double gaps = kPanelGapAcross * static_cast<double>(across - 1);
  out.panel_width = std::floor((kContentWidth - gaps) / static_cast<double>(across)) - out.label_width;
  out.most_columns = static_cast<std::size_t>(out.panel_width / kLeastColumn);
  return out;
}

}  // namespace

PanelGrid panel_grid(std::size_t num_layers, std::size_t num_experts) {
  for (std::size_t across = 1;; ++across) {
    const PanelGrid grid = grid_of(num_layers, num_experts, across);
    const double height = (grid.panel_height() + kPanelGapDown) * static_cast<double>(grid.down);
    if (height <= kMostHeight || across == kMostAcross) return grid;
  }
}

}  // namespace tessera::draw
