// Reads the components of a tokenizer.json. What Tessera does not know is refused by its name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera::tokenizer {

// An object of the file and where it stands, for messages.
struct Component {
  const nlohmann::json& json;
  std::string where;  // "tokenizer.json: pre_tokenizer"

  // The "type". Throws UserError if the object has none.
  std::string type() const;
  bool has(const char* key) const;  // and it is not null
  // Throw UserError if the key is absent, unless there is a default, or of another kind.
  std::string text(const char* key) const;
  bool flag(const char* key) const;
  bool flag(const char* key, bool absent) const;
  std::int64_t number(const char* key) const;
  Component inner(const char* key) const;
  // The members of a list.
  std::size_t size(const char* key) const;
  Component member(const char* key, std::size_t index) const;

  [[noreturn]] void refuse(const std::string& what) const;
  // "pre_tokenizer 'UnicodeScripts' is not known; known are ..".
  [[noreturn]] void refuse_type(const std::string& known) const;
};

// {"String": ".."} or {"Regex": ".."}.
struct TextOrRegex {
  std::string pattern;
  bool is_regex = false;
};
TextOrRegex pattern_of(const Component& component);

}  // namespace tessera::tokenizer
