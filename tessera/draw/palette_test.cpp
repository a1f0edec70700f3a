#include "tessera/draw/palette.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tessera/program/ir/text.hpp"

namespace tessera::draw {
namespace {

using program::OpKind;
using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

// How linear red, green and blue look to people without one kind of cone (Machado, Oliveira and Fernandes
// 2009, severity 1), the first to those who have all three.
constexpr std::array<std::pair<const char*, Matrix>, 4> kEyes = {{
    {"all cones", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
    {"protanopia",
     {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranopia",
     {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}}},
    {"tritanopia",
     {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}},
}};

Triple linear(Colour colour) {
  // Luminance of one channel alone, divided by its weight, is its linear value.
  return {luminance({colour.red, 0, 0}) / 0.2126, luminance({0, colour.green, 0}) / 0.7152,
          luminance({0, 0, colour.blue}) / 0.0722};
}

Triple times(const Matrix& matrix, const Triple& x) {
  Triple out = {};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) out[i] += matrix[i][j] * x[j];
  return out;
}

// CIE L*a*b* of linear sRGB under D65.
Triple lab(Triple rgb) {
  for (double& x : rgb) x = std::clamp(x, 0.0, 1.0);
  constexpr Matrix kXyz = {{{0.4124564, 0.3575761, 0.1804375},
                            {0.2126729, 0.7151522, 0.0721750},
                            {0.0193339, 0.1191920, 0.9503041}}};
  const Triple xyz = times(kXyz, rgb);
  const auto f = [](double t) { return t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116; };
  const double x = f(xyz[0] / 0.95047), y = f(xyz[1]), z = f(xyz[2] / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double distance(Colour a, Colour b, const Matrix& eye) {
  const Triple p = lab(times(eye, linear(a))), q = lab(times(eye, linear(b)));
  return std::hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

TEST(Palette, WordsOnBarsAreRead) {
  for (int kind = 0; kind < program::kNumOpKinds; ++kind)
    for (int shade = 0; shade < num_shades(static_cast<OpKind>(kind)); ++shade) {
      const Colour colour = fill(static_cast<OpKind>(kind), shade);
      EXPECT_GE(contrast(colour, ink(colour)), 4.5)
          << program::name_of(static_cast<OpKind>(kind)) << " " << shade << " " << to_text(colour);
    }
}

TEST(Palette, ContrastIsWhatTheStandardSays) {
  EXPECT_NEAR(contrast({0, 0, 0}, {255, 255, 255}), 21, 1e-9);
  EXPECT_NEAR(contrast({255, 255, 255}, {0x77, 0x77, 0x77}), 4.478, 1e-3);
  EXPECT_EQ(contrast({1, 2, 3}, {1, 2, 3}), 1);
}

TEST(Palette, KindsOnOneLaneAreToldApartByEveryEye) {
  const std::vector<OpKind> lanes[] = {
      {OpKind::forward, OpKind::recompute, OpKind::backward, OpKind::backward_input, OpKind::backward_weight,
       OpKind::step},
      {OpKind::gather, OpKind::reduce, OpKind::send, OpKind::receive, OpKind::exchange, OpKind::sum},
      {OpKind::offload, OpKind::fetch}};
  constexpr double kClearlyDifferent = 10;  // 2.3 is just noticeable
  for (const auto& [eye, matrix] : kEyes)
    for (const auto& kinds : lanes)
      for (const OpKind a : kinds)
        for (const OpKind b : kinds)
          for (int i = 0; a < b && i < num_shades(a); ++i)
            for (int j = 0; j < num_shades(b); ++j)
              EXPECT_GE(distance(fill(a, i), fill(b, j), matrix), kClearlyDifferent)
                  << eye << ": " << program::name_of(a) << i << " and " << program::name_of(b) << j;
}

TEST(Palette, NeighbouringMicroBatchesDifferInShade) {
  EXPECT_EQ(shade_of(program::kOfStep), 0);
  for (int micro = 0; micro < 9; ++micro) {
    EXPECT_NE(shade_of(micro), shade_of(micro + 1));
    EXPECT_NE(fill(OpKind::forward, shade_of(micro)), fill(OpKind::forward, shade_of(micro + 1)));
  }
}

}  // namespace
}  // namespace tessera::draw
