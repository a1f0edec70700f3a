// The colours of loads, in ten heats: blue below the mean of a layer, orange above it, pale around it. They
// are the same in all pictures, so that runs can be compared by eye.
#pragma once

#include <array>
#include <string>

#include "tessera/draw/palette.hpp"

namespace tessera::draw {

// Loads over the mean at which the next heat begins; one is the reciprocal of another.
inline constexpr std::array kHeatBounds = {0.25, 0.5, 2.0 / 3, 0.8, 1.25, 1.5, 2.0, 4.0};
inline constexpr int kNumHeats = 2 + static_cast<int>(kHeatBounds.size());
inline constexpr int kNoTokenHeat = 0;
inline constexpr int kEvenHeat = 5;

int heat_of(double load);

// On light or dark paper.
Colour heat_colour(int heat, bool on_dark);
// "heat7": fills a rectangle, strokes a path.
std::string heat_class(int heat);
// The rules of all of these classes.
std::string heat_style();

}  // namespace tessera::draw
