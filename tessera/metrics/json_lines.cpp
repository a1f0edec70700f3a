#include "tessera/metrics/json_lines.hpp"

#include <charconv>
#include <filesystem>

#include "tessera/base/file_text.hpp"

namespace tessera::metrics {

namespace {

// Of a line that record_of() made; 0 for any other.
std::int64_t step_of(std::string_view line) {
  constexpr std::string_view kKey = "\"step\":";
  const std::size_t at = line.find(kKey);
  if (at == std::string_view::npos) return 0;
  const char* digits = line.data() + at + kKey.size();
  while (digits < line.data() + line.size() && *digits == ' ') ++digits;
  std::int64_t step = 0;
  std::from_chars(digits, line.data() + line.size(), step);
  return step;
}

std::string first_steps(const std::string& path, std::int64_t num_steps) {
  if (num_steps == 0) return "";
  const std::string all = file_text(path);
  std::string out;
  for (std::size_t begin = 0, end = 0; (end = all.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto line = std::string_view(all).substr(begin, end + 1 - begin);
    if (const std::int64_t step = step_of(line); step > 0 && step <= num_steps) out += line;
  }
  return out;
}

}  // namespace

JsonLines::JsonLines(const std::string& path, std::int64_t kept_steps)
    : JsonLines(path, first_steps(path, kept_steps)) {}

JsonLines::JsonLines(const std::string& path, const std::string& begin) : file_(path, "--out") {
  if (!begin.empty()) file_.write(begin);
}

}  // namespace tessera::metrics
