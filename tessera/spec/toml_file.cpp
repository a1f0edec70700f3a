#include "tessera/spec/toml_file.hpp"

// The parser asserts what some texts break, such as "[[&".
namespace tessera::spec {
struct Unreadable {};
[[noreturn]] void refuse_text();
}  // namespace tessera::spec
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? void() : ::tessera::spec::refuse_text())
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/spec/toml_scan.hpp"

namespace tessera::spec {

void refuse_text() { throw Unreadable(); }

namespace {

std::optional<Value> scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  return std::nullopt;
}

std::string description(const toml::node& node) {
  if (const auto value = scalar(node)) return value_text(*value);
  return node.is_array() ? "a list" : node.is_table() ? "a table" : "a date or time";
}

struct Placed {
  std::pair<toml::source_index, toml::source_index> position;
  Entry entry;
};

Placed placed(std::string section, const toml::key& key, const toml::node& node, const std::string& file) {
  Entry entry{.section = std::move(section),
              .name = std::string(key.str()),
              .value = scalar(node),
              .found = description(node)};
  if (const auto* array = node.as_array()) {
    for (const auto& item : *array) {
      if (const auto* text = item.as_string()) entry.list.push_back(text->get());
    }
    if (entry.list.size() != array->size()) entry.list.clear();
  }
  const auto at = key.source().begin;
  entry.where = cat(file, ":", at.line);
  return {{at.line, at.column}, std::move(entry)};
}

}  // namespace

std::vector<Entry> read_toml(std::string_view text, const std::string& name) {
  if (const auto problem = scan_problem(text))
    throw UserError(cat(name, ":", problem->line, ": ", problem->text));
  std::vector<Placed> found;
  try {
    const toml::table root = toml::parse(text, name);
    for (const auto& [key, node] : root) {
      const auto* section = node.as_table();
      if (!section) {
        found.push_back(placed("", key, node, name));
        continue;
      }
      auto heading = placed(std::string(key.str()), key, node, name);
      heading.entry.name.clear();
      found.push_back(std::move(heading));
      for (const auto& [inner, value] : *section) {
        found.push_back(placed(std::string(key.str()), inner, value, name));
      }
    }
  } catch (const toml::parse_error& error) {
    throw UserError(cat(name, ":", error.source().begin.line, ": not valid TOML: ", error.description()));
  } catch (const Unreadable&) {
    throw UserError(cat(name, ": not valid TOML"));
  }
  std::sort(found.begin(), found.end(),
            [](const Placed& a, const Placed& b) { return a.position < b.position; });
  std::vector<Entry> out;
  for (auto& each : found) out.push_back(std::move(each.entry));
  return out;
}

std::optional<Value> read_value(std::string_view text) {
  if (scan_problem(text)) return std::nullopt;
  try {
    const toml::table root = toml::parse(cat("value = ", text));
    if (root.size() == 1) return scalar(*root.get("value"));
  } catch (const toml::parse_error&) {
    // Not TOML: the caller decides whether a bare word will do.
  } catch (const Unreadable&) {
  }
  return std::nullopt;
}

}  // namespace tessera::spec
