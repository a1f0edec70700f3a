// UTF-8: code points out of text that is known to be valid, the check that it is, and its repair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::tokenizer {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr char32_t kNumCodePoints = 0x110000;

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  // that it takes in the text
};

// The one at `at`, which lies in `text`. The text is valid.
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto low = [&](std::size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {static_cast<char32_t>(lead & 0x1F) << 6 | low(1), 2};
  if (lead < 0xF0) return {static_cast<char32_t>(lead & 0x0F) << 12 | low(1) << 6 | low(2), 3};
  return {static_cast<char32_t>(lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4};
}

// Where the code point before `at` begins; `at` is not the beginning of the valid text.
inline std::size_t before(std::string_view text, std::size_t at) {
  do --at;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

void append_utf8(char32_t code, std::string& out);
std::string to_utf8(char32_t code);

// How many bytes at the beginning are valid UTF-8: all of them, or up to the first that is not.
std::size_t valid_prefix(std::string_view text);

// The text with U+FFFD for each longest beginning of a code point that is not gone on with, and each other
// byte that is out of place: what Python's errors="replace" and Rust's from_utf8_lossy make of it.
std::string repaired(std::string_view text);

// How many bytes at the end begin a code point that more text could complete.
std::size_t unfinished_suffix(std::string_view text);

}  // namespace tessera::tokenizer
