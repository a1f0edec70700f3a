#include "tessera/metrics/display/styled_line.hpp"

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

// Bytes of the character at the front if it is well-formed UTF-8 and steers no terminal (C0, DEL, C1), else
// 0.
std::size_t harmless_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const std::size_t bytes = lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (bytes == 0 || text.size() < bytes) return 0;
  unsigned code = lead & 0xffu >> (bytes + 1);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr unsigned kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};  // by length: less is C1 or spelt too long
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code >= kLeast[bytes] && code < 0x110000 && !is_surrogate ? bytes : 0;
}

std::string clean(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = harmless_bytes(text);
    out += bytes > 0 ? text.substr(0, bytes) : "?";
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
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
  std::string shown = clean(text);
  width_ += columns(shown);
  spans_.push_back({std::move(shown), style});
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
  pad_to(width_ + width - columns(clean(text)));
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
