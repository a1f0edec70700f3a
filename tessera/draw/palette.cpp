#include "tessera/draw/palette.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::draw {
namespace {

using program::OpKind;

constexpr Colour kBlue{0x00, 0x72, 0xb2}, kOrange{0xe6, 0x9f, 0x00}, kYellow{0xf0, 0xe4, 0x42},
    kGreen{0x00, 0x9e, 0x73}, kPurple{0xcc, 0x79, 0xa7}, kVermillion{0xd5, 0x5e, 0x00},
    kSkyBlue{0x56, 0xb4, 0xe9}, kGrey{0x5a, 0x5a, 0x5a};
constexpr Colour kDark{0x14, 0x14, 0x14}, kLight{0xff, 0xff, 0xff};

Colour base(OpKind kind) {
  switch (program::info(kind).hue) {
    case program::Hue::blue:
      return kBlue;
    case program::Hue::orange:
      return kOrange;
    case program::Hue::yellow:
      return kYellow;
    case program::Hue::green:
      return kGreen;
    case program::Hue::purple:
      return kPurple;
    case program::Hue::vermilion:
      return kVermillion;
    case program::Hue::sky_blue:
      return kSkyBlue;
    case program::Hue::grey:
      break;
  }
  return kGrey;
}

std::uint8_t mixed(std::uint8_t from, std::uint8_t to, double share) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * share));
}

double linear(std::uint8_t channel) {
  const double x = channel / 255.0;
  return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
}

}  // namespace

int num_shades(OpKind kind) { return program::info(kind).has_shades ? kNumShades : 1; }

int shade_of(std::int32_t micro) { return micro < 0 ? 0 : micro % kNumShades; }

Colour fill(OpKind what, int shade) {
  const Colour from = base(what);
  // Blue grows darker, away from green; all others lighter.
  const Colour to = from == kBlue ? Colour{} : kLight;
  const double share = (from == kBlue ? 0.18 : 0.13) * (shade == 1 ? 2 : shade == 2 ? 1 : 0);
  return {mixed(from.red, to.red, share), mixed(from.green, to.green, share),
          mixed(from.blue, to.blue, share)};
}

Colour rank_colour(std::int64_t place) {
  constexpr std::array kColours = {kBlue, kOrange, kGreen, kPurple, kSkyBlue, kVermillion, kYellow, kGrey};
  const auto count = static_cast<std::int64_t>(kColours.size());
  const Colour from = kColours[static_cast<std::size_t>(place % count)];
  const double share = std::min(0.75, 0.11 * static_cast<double>(place / count));
  return {mixed(from.red, kLight.red, share), mixed(from.green, kLight.green, share),
          mixed(from.blue, kLight.blue, share)};
}

Colour ink(Colour fill) { return contrast(fill, kLight) > contrast(fill, kDark) ? kLight : kDark; }

std::string to_text(Colour colour) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "#";
  for (const std::uint8_t channel : {colour.red, colour.green, colour.blue}) {
    out += kDigits[channel / 16];
    out += kDigits[channel % 16];
  }
  return out;
}

double luminance(Colour colour) {
  return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

double contrast(Colour a, Colour b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

}  // namespace tessera::draw
