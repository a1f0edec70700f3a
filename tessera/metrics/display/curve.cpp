#include "tessera/metrics/display/curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::metrics {

namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

// One that is not finite must not be averaged away.
double mean_or_gap(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  return std::isfinite(mean) ? mean : kGap;
}

std::vector<double> fitted(std::span<const double> values, std::size_t width) {
  std::vector<double> out;
  const std::size_t n = values.size();
  for (std::size_t x = 0; x < width && n > 0; ++x) {
    if (n >= width) {
      const std::size_t begin = x * n / width, end = (x + 1) * n / width;
      out.push_back(mean_or_gap(values.subspan(begin, end - begin)));
    } else {
      const double at = width < 2 ? 0 : static_cast<double>(x * (n - 1)) / static_cast<double>(width - 1);
      const auto left = static_cast<std::size_t>(at), right = std::min(left + 1, n - 1);
      const double share = at - static_cast<double>(left);
      out.push_back(share == 0 ? values[left] : values[left] * (1 - share) + values[right] * share);
      if (!std::isfinite(out.back())) out.back() = kGap;
    }
  }
  return out;
}

std::string utf8(char32_t c) {
  return {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
          static_cast<char>(0x80 | (c & 0x3f))};
}

// Dots that can be set one by one, `across` x `down` of them in a character.
class Dots {
 public:
  Dots(int width, int height, bool braille)
      : braille_(braille), across_(braille ? 2 : 1), down_(braille ? 4 : 1), width_(width), height_(height) {
    bits_.resize(static_cast<std::size_t>(width * height));
  }
  int width() const { return width_ * across_; }
  int height() const { return height_ * down_; }

  void set(int x, int y) {
    static constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    bits_[static_cast<std::size_t>(y / down_ * width_ + x / across_)] |= kBits[y % down_][x % across_];
  }

  std::vector<std::string> rows() const {
    std::vector<std::string> out;
    for (int row = 0; row < height_; ++row) {
      out.emplace_back();
      for (int column = 0; column < width_; ++column) {
        const unsigned bits = bits_[static_cast<std::size_t>(row * width_ + column)];
        out.back() += bits == 0 ? " " : braille_ ? utf8(U'\u2800' + bits) : "*";
      }
    }
    return out;
  }

 private:
  bool braille_;
  int across_, down_, width_, height_;
  std::vector<unsigned> bits_;
};

}  // namespace

Curve draw_curve(std::span<const double> values, int width, int height, bool braille) {
  Dots dots(width, height, braille);
  const auto points = fitted(values, static_cast<std::size_t>(dots.width()));
  Curve curve{.least = std::numeric_limits<double>::infinity(), .most = -curve.least};
  for (const double point : points)
    if (std::isfinite(point))
      curve.least = std::min(curve.least, point), curve.most = std::max(curve.most, point);
  if (curve.least > curve.most) curve.least = curve.most = 0;
  const double range = curve.most - curve.least;
  int before = -1;
  for (std::size_t x = 0; x < points.size(); ++x) {
    if (!std::isfinite(points[x])) {
      before = -1;
      continue;
    }
    const double share = range > 0 ? (curve.most - points[x]) / range : 0.5;
    const int y = static_cast<int>(std::lround(share * (dots.height() - 1)));
    // Steep parts stay joined.
    const int from = before < 0 || before == y ? y : before < y ? before + 1 : before - 1;
    for (int at = std::min(from, y); at <= std::max(from, y); ++at) dots.set(static_cast<int>(x), at);
    before = y;
  }
  curve.rows = dots.rows();
  return curve;
}

}  // namespace tessera::metrics
