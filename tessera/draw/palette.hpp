// The colours of ops: Okabe and Ito's, told apart with any kind of colour vision; shaded by micro-batch, so
// that neighbours differ.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/program/ir/types.hpp"

namespace tessera::draw {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Colour&) const = default;
};

inline constexpr int kNumShades = 3;

// How many a kind of op has: one where ops are of the whole step.
int num_shades(program::OpKind what);
// The shade of a micro-batch; ops of the step have the first.
int shade_of(std::int32_t micro);
// Of a bar.
Colour fill(program::OpKind what, int shade);
// Of what belongs to the rank at a place of its stage: the colours one after the other, lighter with each
// round.
Colour rank_colour(std::int64_t place);
// Of the text on it: the darker or the lighter one, whichever is read more easily.
Colour ink(Colour fill);

// "#0072b2".
std::string to_text(Colour colour);

// Relative luminance as in WCAG 2, from 0 to 1, and the contrast of two colours, from 1 to 21.
double luminance(Colour colour);
double contrast(Colour a, Colour b);

}  // namespace tessera::draw
