#include "tessera/tokenizer/pipeline/component.hpp"

#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/base/shortened.hpp"

namespace tessera::tokenizer {

void Component::refuse(const std::string& what) const {
  throw UserError(cat(where, ": ", shortened(what, 500)));
}

void Component::refuse_type(const std::string& known) const {
  refuse(cat("'", type(), "' is not known; known are ", known));
}

bool Component::has(const char* key) const {
  return json.is_object() && json.contains(key) && !json.at(key).is_null();
}

std::string Component::type() const { return text("type"); }

std::string Component::text(const char* key) const {
  if (!has(key) || !json.at(key).is_string()) refuse(cat("has no text '", key, "'"));
  return json.at(key).get<std::string>();
}

bool Component::flag(const char* key) const {
  if (!has(key) || !json.at(key).is_boolean()) refuse(cat("'", key, "' is neither true nor false"));
  return json.at(key).get<bool>();
}

bool Component::flag(const char* key, bool absent) const { return has(key) ? flag(key) : absent; }

std::int64_t Component::number(const char* key) const {
  if (!has(key) || !json.at(key).is_number_integer()) refuse(cat("'", key, "' is no whole number"));
  const auto& value = json.at(key);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)
    refuse(cat("'", key, "' is too large"));
  return value.get<std::int64_t>();
}

Component Component::inner(const char* key) const {
  if (!has(key) || !json.at(key).is_object()) refuse(cat("has no object '", key, "'"));
  return {json.at(key), cat(where, ".", key)};
}

std::size_t Component::size(const char* key) const {
  if (!has(key) || !json.at(key).is_array()) refuse(cat("has no list '", key, "'"));
  return json.at(key).size();
}

Component Component::member(const char* key, std::size_t index) const {
  return {json.at(key).at(index), cat(where, ".", key, "[", index, "]")};
}

TextOrRegex pattern_of(const Component& component) {
  const Component pattern = component.inner("pattern");
  if (pattern.has("Regex")) return {pattern.text("Regex"), true};
  return {pattern.text("String"), false};
}

}  // namespace tessera::tokenizer
