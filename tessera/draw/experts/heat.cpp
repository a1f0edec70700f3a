#include "tessera/draw/experts/heat.hpp"

#include <algorithm>

#include "tessera/base/text.hpp"

namespace tessera::draw {
namespace {

constexpr std::array<Colour, kNumHeats> kOnLight = {{{0x0a, 0x1f, 0x38},
                                                     {0x0b, 0x4a, 0x85},
                                                     {0x2f, 0x86, 0xc1},
                                                     {0x86, 0xbd, 0xe2},
                                                     {0xc9, 0xe1, 0xf2},
                                                     {0xf4, 0xf4, 0xf2},
                                                     {0xfd, 0xdf, 0xbf},
                                                     {0xf7, 0xb2, 0x72},
                                                     {0xdd, 0x6b, 0x12},
                                                     {0x8f, 0x2f, 0x00}}};
constexpr std::array<Colour, kNumHeats> kOnDark = {{{0xf2, 0xf8, 0xff},
                                                    {0xb4, 0xdc, 0xfa},
                                                    {0x5f, 0xae, 0xe3},
                                                    {0x2f, 0x74, 0xa8},
                                                    {0x25, 0x47, 0x63},
                                                    {0x26, 0x2a, 0x31},
                                                    {0x5e, 0x3f, 0x22},
                                                    {0xa2, 0x5c, 0x16},
                                                    {0xec, 0x8f, 0x35},
                                                    {0xff, 0xd0, 0x9a}}};

std::string variables(bool on_dark) {
  std::string out = ":root, svg { ";
  for (int heat = 0; heat < kNumHeats; ++heat)
    out += cat("--", heat_class(heat), ": ", to_text(heat_colour(heat, on_dark)), "; ");
  return out + "}";
}

}  // namespace

int heat_of(double load) {
  if (!(load > 0)) return kNoTokenHeat;
  return 1 + static_cast<int>(std::ranges::upper_bound(kHeatBounds, load) - kHeatBounds.begin());
}

Colour heat_colour(int heat, bool on_dark) {
  return (on_dark ? kOnDark : kOnLight)[static_cast<std::size_t>(heat)];
}

std::string heat_class(int heat) { return cat("heat", heat); }

std::string heat_style() {
  std::string out =
      cat(variables(false), "\n@media (prefers-color-scheme: dark) { ", variables(true), " }\n");
  for (int heat = 0; heat < kNumHeats; ++heat) {
    const std::string name = heat_class(heat);
    out += cat("rect.", name, " { fill: var(--", name, ") } path.", name, " { stroke: var(--", name, ") }\n");
  }
  return out;
}

}  // namespace tessera::draw
