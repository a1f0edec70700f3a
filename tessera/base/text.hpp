// How values become text: joining, fixed digits, sizes for people, the nearest known word.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

namespace text {
// One part of a joined message; numbers are printed shortest that reads back equal.
std::string part(std::string_view s);
std::string part(double x);
std::string part(std::int64_t x);
std::string part(std::uint64_t x);
inline std::string part(const char* s) { return part(std::string_view(s)); }
inline std::string part(const std::string& s) { return s; }
inline std::string part(char c) { return std::string(1, c); }
inline std::string part(bool b) { return b ? "true" : "false"; }
template <std::signed_integral T>
std::string part(T x) {
  return part(static_cast<std::int64_t>(x));
}
template <std::unsigned_integral T>
std::string part(T x) {
  return part(static_cast<std::uint64_t>(x));
}
inline std::string part(float x) { return part(static_cast<double>(x)); }
}  // namespace text

// All parts as one string.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  ((out += text::part(parts)), ...);
  return out;
}

// x with `digits` digits after the point; scientific(x) as 1.2e-11.
std::string fixed(double x, int digits);
std::string scientific(double x, int digits = 1);

// 1.5 GiB, 12.3 MB/s style: bytes with a binary unit; counts as 10.2M.
std::string bytes_text(double bytes);
std::string count_text(double count);

// 95 s as 1m35s.
std::string duration_text(double seconds);

std::string join(std::span<const std::string> words, std::string_view between);

// The known word with the smallest edit distance, if it is near enough to be a slip of the hand.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);
// "; did you mean <near>?", or "." if nothing is near: the end of a sentence about an unknown word.
std::string did_you_mean(const std::optional<std::string>& near);

// "rank 3" or "ranks 0, 1, 4 to 900", of ascending numbers.
std::string ranks_text(std::span<const int> ranks);

// A plain table: columns padded, numbers right-aligned when every cell below the header is one.
std::string table(const std::vector<std::vector<std::string>>& rows);

// Lines of at most `width` columns, broken at spaces where there are any. The rest of a line stands below the
// last column that two spaces begin, so that a list of names and meanings keeps its shape.
std::string wrapped(std::string_view text, std::size_t width);

}  // namespace tessera
