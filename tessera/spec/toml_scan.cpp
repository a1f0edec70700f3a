#include "tessera/spec/toml_scan.hpp"

#include <algorithm>

namespace tessera::spec {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr int kMost = 8;  // a run file needs two parts of a key, and two brackets around the name of a table

// The place after a string that begins at `at`; at the end of its line if it is never closed, which the
// parser refuses.
std::size_t after_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool is_long = text.substr(at).starts_with(three);
  std::size_t i = at + (is_long ? 3 : 1);
  for (; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (!is_long && (text[i] == quote || text[i] == '\n')) {
      return text[i] == quote ? i + 1 : i;
    } else if (is_long && text.substr(i).starts_with(three)) {
      i += 3;
      for (int own = 0; own < 2 && i < text.size() && text[i] == quote; ++own) ++i;  // of the string itself
      return i;
    }
  }
  return text.size();
}

}  // namespace

std::optional<ScanProblem> scan_problem(std::string_view text) {
  int line = 1, brackets = 0, dots = 0;
  for (std::size_t i = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t end = after_string(text, i);
      line += static_cast<int>(std::ranges::count(text.substr(i, end - i), '\n'));
      i = end;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (static_cast<unsigned char>(c) >= 0x80)
      return ScanProblem{
          line,
          "has a character outside of quotes that is not ASCII; names of keys are, and texts have quotes"};
    if (c == '.') ++dots;
    if (c == '=' || c == ',' || c == '\n' || c == '[' || c == ']' || c == '{' || c == '}') dots = 0;
    if (c == '[' || c == '{') ++brackets;
    if (c == ']' || c == '}') brackets = std::max(0, brackets - 1);
    if (dots >= kMost || brackets > kMost)
      return ScanProblem{line, "is nested deeper than a run file can be: a key has a section and a name"};
    if (c == '\n') ++line;
    ++i;
  }
  return std::nullopt;
}

}  // namespace tessera::spec
