#include "tessera/metrics/styled_line.hpp"

#include <algorithm>

namespace tessera::metrics {

namespace {

const char* escape_of(Style style) {
  switch (style) {
    case Style::plain:
      return "";
    case Style::strong:
      return "\x1b[1m";
    case Style::faint:
      return "\x1b[2m";
    case Style::good:
      return "\x1b[32m";
    case Style::warning:
      return "\x1b[1;31m";
    case Style::accent:
      return "\x1b[36m";
  }
  return "";
}

// One character from the front: its bytes, and its columns.
std::pair<std::size_t, int> first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  std::size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  bytes = std::min(bytes, text.size());
  // Scripts from U+2E80 on are mostly two columns wide; counting them so at worst cuts a line early.
  return {bytes, lead >= 0xe3 || text.substr(0, bytes) >= "\xe2\xba\x80" ? 2 : 1};
}

}  // namespace

int columns(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const auto [bytes, wide] = first_character(text);
    width += wide;
    text.remove_prefix(bytes);
  }
  return width;
}

StyledLine& StyledLine::add(std::string_view text, Style style) {
  std::string clean(text);
  std::ranges::replace_if(
      clean, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  width_ += columns(clean);
  spans_.push_back({std::move(clean), style});
  return *this;
}

StyledLine& StyledLine::add(const StyledLine& line) {
  spans_.insert(spans_.end(), line.spans_.begin(), line.spans_.end());
  width_ += line.width_;
  return *this;
}

StyledLine& StyledLine::pad_to(int column) {
  if (width_ < column) add(std::string(static_cast<std::size_t>(column - width_), ' '));
  return *this;
}

StyledLine& StyledLine::add_right(std::string_view text, int width, Style style) {
  pad_to(width_ + width - columns(text));
  return add(text, style);
}

std::string StyledLine::rendered(int columns, bool colours) const {
  std::string out;
  for (const auto& [text, style] : spans_) {
    const std::string_view escape = colours ? escape_of(style) : "";
    std::string_view rest = text;
    out += escape;
    while (!rest.empty()) {
      const auto [bytes, wide] = first_character(rest);
      columns -= wide;
      if (columns < 0) break;
      out += rest.substr(0, bytes);
      rest.remove_prefix(bytes);
    }
    if (!escape.empty()) out += "\x1b[0m";
    if (columns <= 0) break;
  }
  return out;
}

}  // namespace tessera::metrics
