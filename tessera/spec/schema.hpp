// The keys of a run file: one declaration, in schema.cpp, from which parsing, defaults, printing, the listing
// and docs/config.md follow. A new key is a field in spec.hpp and a line there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/number.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::spec {

using Value = std::variant<bool, std::int64_t, double, std::string>;

enum class Kind { boolean, integer, number, text, word };

struct Key {
  std::string section, name;
  Kind kind = Kind::text;
  Range range;
  std::vector<std::string> words;                   // of Kind::word
  std::string former_name;                          // still understood
  std::int64_t former_unit = 1;                     // of a number by its former name, in today's
  std::map<std::string, std::string> former_words;  // still understood: the word of before, and today's
  std::string about;
  std::function<Value(const Run&)> get;
  std::function<void(Run&, const Value&)> set;  // the value must be fitted() to this key
  std::string full() const { return section + "." + name; }
};

struct Section {
  std::string name, about;
};

const std::vector<Section>& sections();
bool is_section(std::string_view name);
// All keys, in the order in which a run file is printed.
const std::vector<Key>& schema();

// Keys that mean something with model.experts above 0 alone.
const std::vector<std::string>& expert_keys();
// The key "section.name", or null.
const Key* find_key(std::string_view full);

// The value in the key's own type if type, range and words allow it (an integer serves as a number).
std::optional<Value> fitted(const Key& key, const Value& value);
// What the key takes, in words: "an integer, at least 1".
std::string allowed(const Key& key);
// The value as TOML.
std::string value_text(const Value& value);

// Every key with default, what is allowed and what it means: for a terminal, and as the page docs/config.md.
std::string schema_text();
std::string schema_markdown();

}  // namespace tessera::spec
