// The sheet of a layout's picture: the mesh above, cards of parameters below, ranks in the same colours.
#pragma once

#include "tessera/draw/layout/layout_picture.hpp"
#include "tessera/draw/sheet.hpp"

namespace tessera::draw {

// `width` and `height` pixels in the colour of the rank that stands at this place of its stage.
std::string rank_rect(mesh::Rank place, double x, double y, double width, double height,
                      const std::string& title);
// Words around a point of such a rectangle, in ink that can be read on it; "" when they would not fit the
// room.
std::string rank_words(mesh::Rank place, double x, double y, double font_pixels, double room,
                       const std::string& words);

// The ranks as cells, side by side along the innermost axis, then below each other, then in blocks. Returns
// its width.
double add_mesh(Sheet& sheet, const LayoutPicture& picture);

}  // namespace tessera::draw
