// A curve of numbers in a few characters: braille dots, or ASCII where there are none.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tessera::metrics {

struct Curve {
  std::vector<std::string> rows;  // top first, each `width` characters
  double least = 0, most = 0;     // of what is drawn: the bottom and the top row
};

// All values over the whole width: averaged where they are many, joined by lines where they are few. What is
// not finite is a gap.
Curve draw_curve(std::span<const double> values, int width, int height, bool braille);

}  // namespace tessera::metrics
