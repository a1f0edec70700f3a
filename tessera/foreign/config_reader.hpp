// Reads a config.json of `transformers`. Nothing of the file is run; every complaint names the file, the key
// and what it must be.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::foreign {

using Json = nlohmann::json;

class ConfigReader {
 public:
  // Throws UserError when the text is no JSON object, or larger or deeper than any config.
  ConfigReader(std::string_view text, const std::string& path);

  void need(bool condition, const std::string& complaint) const;
  // Refuses what is not computed here.
  void refuse(bool asked, const std::string& key, const std::string& hint) const;

  const Json& root() const { return root_; }
  // The value, or null where it is missing: transformers makes no difference.
  static const Json& at(const Json& object, const std::string& key);
  const Json& at(const std::string& key) const { return at(root_, key); }
  bool is_true(const std::string& key) const { return at(key) == Json(true); }

  // Checked against the range of the run file's key that it becomes.
  std::int64_t integer(const Json& object, const std::string& key, const std::string& ours,
                       std::optional<std::int64_t> missing = {}) const;
  double number(const Json& object, const std::string& key, const std::string& ours,
                std::optional<double> missing = {}) const;
  bool flag(const std::string& key, bool missing) const;
  // Bounded, whatever the file holds.
  static std::string shown(const Json& value);

 private:
  const std::string& path_;
  Json root_;
};

}  // namespace tessera::foreign
