#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/base/text.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::spec {

namespace {

std::string escaped(const std::string& text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += cat('\\', c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += cat("\\u00", kHex[byte >> 4], kHex[byte & 15]);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// A bare "1" would read back as an integer, and a long one would not even fit.
std::string number_text(double x) {
  const std::string digits = cat(x);
  return digits.find_first_of(".einf") == std::string::npos ? digits + ".0" : digits;
}

}  // namespace

std::string value_text(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return escaped(*text);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return cat(*integer);
  return cat(std::get<bool>(value));
}

std::optional<Value> fitted(const Key& key, const Value& value) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  switch (key.kind) {
    case Kind::boolean:
      if (std::holds_alternative<bool>(value)) return value;
      break;
    case Kind::integer:
      if (integer && key.range.holds(static_cast<double>(*integer))) return value;
      break;
    case Kind::number: {
      const auto* number = std::get_if<double>(&value);
      const double x = number ? *number : integer ? static_cast<double>(*integer) : std::nan("");
      if (key.range.holds(x)) return x;
      break;
    }
    case Kind::text:
      if (std::holds_alternative<std::string>(value)) return value;
      break;
    case Kind::word: {
      const auto* text = std::get_if<std::string>(&value);
      if (text && std::find(key.words.begin(), key.words.end(), *text) != key.words.end()) return value;
      if (const auto former = text ? key.former_words.find(*text) : key.former_words.end();
          former != key.former_words.end())
        return former->second;
      break;
    }
  }
  return std::nullopt;
}

std::string allowed(const Key& key) {
  switch (key.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return "an integer" + key.range.text();
    case Kind::number:
      return "a number" + key.range.text();
    case Kind::text:
      return "text";
    case Kind::word:
      return "one of " + join(key.words, ", ");
  }
  return "";
}

std::string schema_text() {
  const Run defaults;
  constexpr std::size_t kColumn = 42, kWidth = 100;
  std::string out;
  for (const auto& key : schema()) {
    std::string left = cat("  ", key.full(), " = ", value_text(key.get(defaults)), "  ");
    left.resize(std::max(left.size(), kColumn), ' ');
    out += wrapped(cat(left, key.about, " (", allowed(key), ")"), kWidth) + "\n";
  }
  return out;
}

std::string schema_markdown() {
  const Run defaults;
  std::string out =
      "# The run file\n\n"
      "A run is one TOML file. Every key has a default, so a file holds only what differs. On the command "
      "line\n"
      "`section.key=value` comes last and wins. An unknown key is an error that names the nearest known "
      "one.\n\n"
      "`include = \"other.toml\"` (or a list of files) at the top reads other files first, relative to the "
      "file\n"
      "that names them; later values win. `data.path`, `evaluation.path`, `model.weights`, "
      "`layout.schedule_file` and\n"
      "`cluster.key_file` are looked for beside the file that names them first, then in the working folder;\n"
      "on the command line they are meant from the working folder.\n\n"
      "This page is generated from the declaration in `tessera/spec/schema.cpp`; a test compares the two.\n";
  for (const auto& section : sections()) {
    out += cat("\n## [", section.name, "]\n", section.about,
               "\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n");
    for (const auto& key : schema()) {
      if (key.section != section.name) continue;
      out += cat("| `", key.name, "` | `", value_text(key.get(defaults)), "` | ", allowed(key), " | ",
                 key.about, " |\n");
    }
  }
  return out;
}

}  // namespace tessera::spec
