#include "tessera/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace tessera {

namespace text {
namespace {
template <typename T>
std::string digits(T x) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr;
  return {buffer.data(), end};
}
}  // namespace

std::string part(std::string_view s) { return std::string(s); }
std::string part(double x) { return digits(x); }
std::string part(std::int64_t x) { return digits(x); }
std::string part(std::uint64_t x) { return digits(x); }
}  // namespace text

namespace {
std::string printed(const char* format, int digits, double x) {
  std::array<char, 64> buffer{};
  const int n = std::snprintf(buffer.data(), buffer.size(), format, digits, x);
  return {buffer.data(), static_cast<std::size_t>(std::clamp(n, 0, 63))};
}

bool looks_numeric(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.+-eE%x/ ") == std::string::npos;
}

// Columns are counted in code points, so that an em dash is one wide.
std::size_t width(const std::string& cell) {
  return static_cast<std::size_t>(std::count_if(
      cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}
}  // namespace

std::string fixed(double x, int digits) { return printed("%.*f", digits, x); }
std::string scientific(double x, int digits) { return printed("%.*e", digits, x); }

std::string bytes_text(double bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < kUnits.size()) bytes /= 1024, ++unit;
  return cat(fixed(bytes, unit == 0 || bytes >= 100 ? 0 : 1), " ", kUnits[unit]);
}

std::string count_text(double count) {
  static constexpr std::array kUnits = {"", "k", "M", "B", "T"};
  std::size_t unit = 0;
  while (std::abs(count) >= 1000 && unit + 1 < kUnits.size()) count /= 1000, ++unit;
  return cat(fixed(count, unit == 0 ? 0 : 1), kUnits[unit]);
}

std::string duration_text(double seconds) {
  if (seconds < 60) return cat(fixed(seconds, seconds < 10 ? 1 : 0), "s");
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return cat(whole / 60, "m", whole % 60 < 10 ? "0" : "", whole % 60, "s");
  return cat(whole / 3600, "h", whole / 60 % 60 < 10 ? "0" : "", whole / 60 % 60, "m");
}

std::string join(std::span<const std::string> words, std::string_view between) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i) out += between;
    out += words[i];
  }
  return out;
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 2) + 1;
  std::optional<std::string> best;
  std::vector<std::size_t> row;
  for (const auto& candidate : known) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    if (longer - shorter >= best_distance) continue;  // each byte more is one edit
    row.resize(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i + 1;
      for (std::size_t j = 0; j < candidate.size(); ++j) {
        const std::size_t change = diagonal + (word[i] == candidate[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < best_distance) best_distance = row.back(), best = candidate;
  }
  return best;
}

std::string did_you_mean(const std::optional<std::string>& near) {
  return near ? cat("; did you mean ", *near, "?") : ".";
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<bool> numeric;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      if (c >= widths.size()) widths.push_back(0), numeric.push_back(true);
      widths[c] = std::max(widths[c], width(rows[r][c]));
      if (r > 0 && !rows[r][c].empty() && !looks_numeric(rows[r][c])) numeric[c] = false;
    }
  }
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const std::string gap(widths[c] - width(rows[r][c]), ' ');
      line += c ? "  " : "";
      line += numeric[c] ? gap + rows[r][c] : rows[r][c] + gap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) {
      const auto total =
          std::accumulate(widths.begin(), widths.end(), std::size_t{0}) + 2 * (widths.size() - 1);
      out += std::string(total, '-') + "\n";
    }
  }
  return out;
}

std::string ranks_text(std::span<const int> ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - i >= 2) {
      parts.push_back(cat(ranks[i], " to ", ranks[last]));
    } else {
      for (std::size_t j = i; j <= last; ++j) parts.push_back(cat(ranks[j]));
    }
    i = last + 1;
  }
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(parts, ", "));
}

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line(text.substr(begin, end - begin));
    const auto column = line.substr(0, width / 2).rfind("  ");
    const std::string indent(column == std::string::npos ? 0 : column + 2, ' ');
    while (line.size() > width) {
      const auto at = line.rfind(' ', width);
      if (at == std::string::npos || at < indent.size() || line.find_first_not_of(' ') >= at) break;
      out += line.substr(0, at) + "\n";
      line = indent + line.substr(at + 1);
    }
    out += line + (end < text.size() ? "\n" : "");
    begin = end + 1;
  }
  return out;
}

}  // namespace tessera
