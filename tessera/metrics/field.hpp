// Writes records of named values as JSON. This is the one place that quotes and prints numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera::metrics {

struct Field;
using Record = std::vector<Field>;

struct Field {
  std::string name;
  std::variant<std::int64_t, double, std::string, bool, std::vector<std::int64_t>, std::vector<double>,
               std::vector<std::string>, std::vector<Record>, Record>
      value;
  bool operator==(const Field&) const = default;
};

// "text" with what JSON wants escaped.
std::string json_quoted(std::string_view text);

// {"step": 3, "loss": 2.5}: doubles read back as equal doubles; one that isn't finite is null, as JSON has
// none.
std::string json_object(std::span<const Field> fields);

}  // namespace tessera::metrics
