#include "tessera/foreign/config_reader.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::foreign {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 32;

const spec::Key& known_key(const std::string& ours) {
  const spec::Key* known = spec::find_key(ours);
  TESSERA_CHECK(known, "no key ", ours);
  return *known;
}

}  // namespace

ConfigReader::ConfigReader(std::string_view text, const std::string& path) : path_(path) {
  need(text.size() <= kMaxBytes, cat("has ", text.size(), " bytes; a config of a model has a few thousand"));
  need(json_depth(text) <= kMaxDepth, "is nested deeper than any config of a model");
  root_ = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  need(root_.is_object(), "is not a JSON object");
}

void ConfigReader::need(bool condition, const std::string& complaint) const {
  if (!condition) throw UserError(cat(path_, " ", complaint));
}

void ConfigReader::refuse(bool asked, const std::string& key, const std::string& hint) const {
  if (asked) need(false, cat("says ", key, " = ", shown(root_.value(key, Json())), ", ", hint));
}

const Json& ConfigReader::at(const Json& object, const std::string& key) {
  static const Json none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

std::int64_t ConfigReader::integer(const Json& object, const std::string& key, const std::string& ours,
                                   std::optional<std::int64_t> missing) const {
  const Json& value = at(object, key);
  if (value.is_null() && missing) return *missing;
  const spec::Key& known = known_key(ours);
  need(value.is_number_integer() && spec::fitted(known, value.get<std::int64_t>()),
       cat("says ", key, " = ", shown(value), "; it must be ", spec::allowed(known)));
  return value.get<std::int64_t>();
}

double ConfigReader::number(const Json& object, const std::string& key, const std::string& ours,
                            std::optional<double> missing) const {
  const Json& value = at(object, key);
  if (value.is_null() && missing) return *missing;
  const spec::Key& known = known_key(ours);
  need(value.is_number() && spec::fitted(known, value.get<double>()),
       cat("says ", key, " = ", shown(value), "; it must be ", spec::allowed(known)));
  return value.get<double>();
}

bool ConfigReader::flag(const std::string& key, bool missing) const {
  const Json& value = at(key);
  if (value.is_null()) return missing;
  need(value.is_boolean(), cat("says ", key, " = ", shown(value), "; it must be true or false"));
  return value.get<bool>();
}

std::string ConfigReader::shown(const Json& value) {
  constexpr std::size_t kMost = 80;
  if (value.is_structured() && value.size() > 8) return value.is_array() ? "a long list" : "a long table";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

}  // namespace tessera::foreign
