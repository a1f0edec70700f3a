// Numbers that people write: in options, tables and run files.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// Bounds of an integer or number; an open bound is itself outside.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_least = false, open_most = false;
  // False for NaN and infinities, whatever the bounds.
  bool holds(double x) const;
  // The bounds as the end of a sentence: " from 0 to 1", " above 0".
  std::string text() const;
};

enum class NumberKind { whole, any };

// The value of a decimal number such as "12", "0.5", "2e12", or "2T" with one of the suffixes k, M, B, G and
// T. Returns nothing for any other text: empty, hexadecimal, NaN, infinite, too large for a double.
std::optional<double> parse_number(std::string_view text);

// parse_number() of the value of `name` within a range. Throws UserError with name, value and what is
// allowed.
double required_number(std::string_view name, std::string_view text, const Range& range,
                       NumberKind kind = NumberKind::any);

}  // namespace tessera
