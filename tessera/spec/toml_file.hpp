// A TOML text as a flat list of entries with their lines; what they mean is load.cpp's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/spec/schema.hpp"

namespace tessera::spec {

struct Entry {
  std::string section;            // empty: at the top of the file, outside of any section
  std::string name;               // empty: the heading of a section
  std::optional<Value> value;     // none: something no key takes (a table, a date, a mixed list)
  std::vector<std::string> list;  // of a list of texts
  std::string found;              // the value for a message
  std::string where;              // "run.toml:4"
};

// All entries in the order of their lines; throws UserError with file and line when `text` is not TOML.
std::vector<Entry> read_toml(std::string_view text, const std::string& name);

// One TOML value, or none if it is not one.
std::optional<Value> read_value(std::string_view text);

}  // namespace tessera::spec
