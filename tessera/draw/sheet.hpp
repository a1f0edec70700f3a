// The coordinates that all parts of an SVG share, and the elements they write.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/draw/picture.hpp"

namespace tessera::draw {

inline constexpr double kGutter = 124;  // left of the plot: names of ranks and lanes
inline constexpr double kMargin = 16;
inline constexpr double kComputeHeight = 24, kLaneHeight = 10, kHeldHeight = 20, kRankGap = 10;
inline constexpr double kStripe =
    2;  // a line in a bar's foot for each virtual stage of the rank that comes before
inline constexpr double kDigitEms = 0.64;  // the widest digits of common sans-serif fonts
inline constexpr double kLetterEms = 0.6;  // their letters, on average at most

// Grows downwards; y is where the next part begins.
struct Sheet {
  double plot_width = 0;
  double scale = 1;  // pixels per unit of time
  bool is_zoomed = false;
  double y = 0;
  std::string body;

  double width() const { return kGutter + plot_width + kMargin; }
  double x(double time) const { return kGutter + time * scale; }
};

// Pixels to a tenth: "12.5".
std::string px(double x);
std::string text_at(double x, double y, std::string_view classes, std::string_view text);
// Cut with an ellipsis when it would be wider.
std::string fitted(std::string_view text, double font_pixels, double width);
// Lines of words that fit the width.
std::vector<std::string> wrapped(std::string_view text, double font_pixels, double width);

// A step of 1, 2 or 5 times a power of ten that divides `range` into at most `most` parts.
double tick_step(double range, double most);

// The pattern that the class idle is filled with.
std::string hatched_pattern();

// A whole file: the title, the sheet's style and `more_style`, paper of this size, and the body.
std::string svg_file(const std::string& title, const std::string& more_style, double width, double height,
                     const std::string& body);

// The parts of a picture, each below the one before.
void add_heading(Sheet& sheet, const Picture& picture);
void add_legend(Sheet& sheet, const Picture& picture);
void add_panel(Sheet& sheet, const Picture& picture, const Panel& panel, double end, double peak_held);
void add_comparison(Sheet& sheet, const Picture& picture);
std::string style_sheet();

// What takes no time isn't drawn, nor is a row where nothing does.
bool takes_time(const Bar& bar);
bool takes_time(const Row& row);
// The lines in the foot of a bar of that colour class, all within its width.
std::string stripes(std::uint32_t visit, const std::string& colour, double x, double bottom, double width);
// Their height, with the gaps.
double foot_height(std::uint32_t visit);
// The class of a bar's colour: "forward1".
std::string colour_class(program::OpKind what, int shade);

}  // namespace tessera::draw
