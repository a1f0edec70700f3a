#include "tessera/metrics/field.hpp"

#include <cmath>

#include "tessera/base/text.hpp"

namespace tessera::metrics {

namespace {

std::string json_value(std::int64_t x) { return cat(x); }
std::string json_value(const std::string& x) { return json_quoted(x); }
// A whole double keeps its point, so that a reader doesn't take it for an integer.
std::string json_value(double x) {
  if (!std::isfinite(x)) return "null";
  const std::string digits = cat(x);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

std::string json_value(bool x) { return x ? "true" : "false"; }
std::string json_value(const Record& record) { return json_object(record); }
template <typename T>
std::string json_value(const std::vector<T>& list) {
  std::string out;
  for (const T& item : list) out += (out.empty() ? "" : ", ") + json_value(item);
  return cat("[", out, "]");
}

}  // namespace

std::string json_quoted(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (code < 0x20) {
      out += cat("\\u00", kHex[code / 16], kHex[code % 16]);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string json_object(std::span<const Field> fields) {
  std::string out = "{";
  for (const Field& field : fields) {
    if (out.size() > 1) out += ", ";
    const auto value = std::visit([](const auto& x) { return json_value(x); }, field.value);
    out += cat(json_quoted(field.name), ": ", value);
  }
  return out + '}';
}

}  // namespace tessera::metrics
