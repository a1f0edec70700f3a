// A picture as one HTML file with everything in it: the SVG, zoom, and what each bar is.
#pragma once

#include <string>

#include "tessera/draw/picture.hpp"

namespace tessera::draw {

// Wheel, drag, buttons and keys zoom and move along time; the pointer or the arrow keys tell of a bar.
std::string to_html(const Picture& picture);

}  // namespace tessera::draw
