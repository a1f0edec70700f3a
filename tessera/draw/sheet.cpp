#include "tessera/draw/sheet.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/base/text.hpp"
#include "tessera/draw/palette.hpp"
#include "tessera/draw/svg.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::draw {

std::string px(double x) {
  std::string out = fixed(x, 1);
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out == "-0" ? "0" : out;
}

std::string text_at(double x, double y, std::string_view classes, std::string_view text) {
  return cat("<text class=\"", classes, "\" x=\"", px(x), "\" y=\"", px(y), "\">", xml_escaped(text),
             "</text>\n");
}

std::string fitted(std::string_view text, double font_pixels, double width) {
  const auto room = static_cast<std::size_t>(std::max(1.0, width / (kLetterEms * font_pixels)));
  if (text.size() <= room) return std::string(text);
  std::size_t end = room - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a letter
  return cat(text.substr(0, end), "\u2026");
}

std::vector<std::string> wrapped(std::string_view text, double font_pixels, double width) {
  const auto room = static_cast<std::size_t>(width / (kLetterEms * font_pixels));
  std::vector<std::string> out;
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word(text.substr(at, end - at));
    if (!line.empty() && line.size() + 1 + word.size() > room) out.push_back(std::exchange(line, ""));
    line += line.empty() ? word : " " + word;
    at = end + 1;
  }
  if (!line.empty()) out.push_back(line);
  return out;
}

double tick_step(double range, double most) {
  if (!(range > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(range / most)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (power * factor) <= most) return power * factor;
  return power * 10;
}

bool takes_time(const Bar& bar) { return bar.end > bar.start; }

bool takes_time(const Row& row) {
  return std::ranges::any_of(row.bars, [](const Bar& bar) { return takes_time(bar); });
}

namespace {
constexpr std::uint32_t kMostStripes = 3;  // later stages have as many
}

double foot_height(std::uint32_t visit) {
  return visit == 0 ? 0 : 2 * kStripe * std::min(visit, kMostStripes) + 1;
}

std::string stripes(std::uint32_t visit, const std::string& colour, double x, double bottom, double width) {
  std::string out;
  for (std::uint32_t i = 0; i < std::min(visit, kMostStripes); ++i)
    out += cat("<rect class=\"stripe on-", colour, "\" x=\"", px(x), "\" y=\"",
               px(bottom - 2 * kStripe * (i + 1)), "\" width=\"", px(width), "\" height=\"", px(kStripe),
               "\"/>\n");
  return out;
}

std::string colour_class(program::OpKind what, int shade) {
  std::string name(program::name_of(what));
  std::erase(name, ' ');
  return cat(name, std::min(shade, num_shades(what) - 1));
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

std::string hatched_pattern() {
  return "<defs><pattern id=\"hatched\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
         "<rect class=\"ground\" width=\"6\" height=\"6\"/>"
         "<path class=\"hatch\" d=\"M-1 1l2-2M0 6l6-6M5 7l2-2\"/></pattern></defs>\n";
}

std::string svg_file(const std::string& title, const std::string& more_style, double width, double height,
                     const std::string& body) {
  const std::string w = px(width), h = px(height);
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", w, " ", h, "\" width=\"", w,
             "\" height=\"", h, "\" role=\"img\">\n<title>", xml_escaped(title), "</title>\n<style>\n",
             style_sheet(), more_style, "</style>\n<rect class=\"paper\" width=\"", w, "\" height=\"", h,
             "\"/>\n", body, "</svg>\n");
}

std::string style_sheet() {
  std::string out =
      R"(:root, svg { color-scheme: light dark; --paper: #ffffff; --text: #1b1f24; --quiet: #57606a;
  --line: #c8ced6; --idle: #f3f4f6; --hatch: #d4d9e0; --held: #8a939e; --held-fill: #dfe3e8 }
@media (prefers-color-scheme: dark) { :root, svg { --paper: #14171c; --text: #e8ebef; --quiet: #a6aeb8;
  --line: #3c444e; --idle: #1d2127; --hatch: #343b45; --held: #8b949e; --held-fill: #2b313a } }
text { font-family: system-ui, "Helvetica Neue", Arial, sans-serif; font-size: 11px; fill: var(--text) }
.title { font-size: 16px; font-weight: 600 } .numbers { font-size: 12px } )"
      R"(.panel { font-size: 13px; font-weight: 600 }
.quiet, .lane, .tick { fill: var(--quiet) } .lane { font-size: 9px; text-anchor: end } )"
      R"(.tick { font-size: 10px; text-anchor: middle }
.name { font-weight: 600 } .number { text-anchor: end } .paper { fill: var(--paper) }
.grid { stroke: var(--line); stroke-width: 0.5; fill: none } )"
      R"(.makespan { stroke: var(--quiet); stroke-dasharray: 3 3; fill: none }
.idle { fill: url(#hatched) } .ground { fill: var(--idle) } .hatch { stroke: var(--hatch); stroke-width: 1.2 }
.lane-ground { fill: var(--idle) } .edged { stroke: var(--paper); stroke-width: 0.6 }
.stripe { fill-opacity: 0.8; pointer-events: none } )"
      R"(.held { fill: var(--held-fill); stroke: var(--held); stroke-width: 1 }
.micro { text-anchor: middle; pointer-events: none } .micro.small { font-size: 8px } )"
      R"(.no-room { display: none }
)";
  for (int kind = 0; kind < program::kNumOpKinds; ++kind)
    for (int shade = 0; shade < num_shades(static_cast<program::OpKind>(kind)); ++shade) {
      const Colour colour = fill(static_cast<program::OpKind>(kind), shade);
      const std::string name = colour_class(static_cast<program::OpKind>(kind), shade);
      out += cat(".", name, " { fill: ", to_text(colour), " } .on-", name, " { fill: ", to_text(ink(colour)),
                 " }\n");
    }
  return out;
}

}  // namespace tessera::draw
