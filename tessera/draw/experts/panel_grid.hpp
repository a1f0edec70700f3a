// How the panels of layers lie on a sheet: below each other while there is room, else smaller and several
// side by side.
#pragma once

#include <cstddef>

namespace tessera::draw {

inline constexpr std::size_t kMostLayers = 256;  // that a picture can show

struct PanelGrid {
  std::size_t across = 1;           // panels side by side
  std::size_t down = 1;             // panels below each other
  std::size_t experts_per_row = 1;  // more than one where one would get less than a pixel
  std::size_t num_rows = 1;         // of the layer with most experts
  std::size_t most_columns = 1;     // steps, or groups of steps, that get two pixels
  double row_height = 1;
  double label_width = 0;  // left of each panel
  double panel_width = 0;

  double panel_height() const { return row_height * static_cast<double>(num_rows); }
  bool operator==(const PanelGrid&) const = default;
};

// For layers of up to so many experts.
PanelGrid panel_grid(std::size_t num_layers, std::size_t num_experts);

// Pixels between panels.
inline constexpr double kPanelGapAcross = 18, kPanelGapDown = 10;

}  // namespace tessera::draw
