#include "tessera/base/number.hpp"

#include <charconv>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera {
namespace {

// What the suffix multiplies by; 0 if it is not one.
double scale_of(std::string_view suffix) {
  if (suffix.empty()) return 1;
  if (suffix == "k" || suffix == "K") return 1e3;
  if (suffix == "M") return 1e6;
  if (suffix == "B" || suffix == "G") return 1e9;
  return suffix == "T" ? 1e12 : 0;
}

}  // namespace

bool Range::holds(double x) const {
  return std::isfinite(x) && (open_least ? x > least : x >= least) && (open_most ? x < most : x <= most);
}

std::string Range::text() const {
  const bool low = std::isfinite(least), high = std::isfinite(most);
  if (low && high && !open_least && !open_most) return cat(" from ", least, " to ", most);
  std::string out;
  if (low) out += cat(open_least ? " above " : ", at least ", least);
  if (high) out += cat(low ? " and" : "", open_most ? " below " : " at most ", most);
  return out;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  const double scale = scale_of({rest, end});
  value *= scale;
  return scale > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

double required_number(std::string_view name, std::string_view text, const Range& range, NumberKind kind) {
  const auto value = parse_number(text);
  const bool is_whole = kind == NumberKind::any || (value && std::floor(*value) == *value);
  if (value && is_whole && range.holds(*value)) return *value;
  throw UserError(
      cat(name, " ", text, ": wants ", kind == NumberKind::whole ? "an integer" : "a number", range.text()));
}

}  // namespace tessera
