// A picture as a self-contained SVG: no script, no font of its own, light and dark.
#pragma once

#include <string>

#include "tessera/draw/picture.hpp"

namespace tessera::draw {

struct SvgOptions {
  double most_width = 2400;  // pixels; a smaller picture is as wide as its bars need
  bool is_zoomed = false;    // for a page's script: says its scale, and holds the numbers that don't fit yet
};

// Throws UserError when there are more bars than a viewer can show.
std::string to_svg(const Picture& picture, const SvgOptions& options = {});

// Text as XML wants it; characters that XML forbids become spaces.
std::string xml_escaped(std::string_view text);

}  // namespace tessera::draw
