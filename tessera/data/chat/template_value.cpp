#include "tessera/data/chat/template_value.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

constexpr std::string_view kPythonWhite = " \t\r\n\f\v";

std::string stripped(std::string text, std::string_view characters, bool front, bool back) {
  if (back) {
    const std::size_t last = text.find_last_not_of(characters);
    text.resize(last == text.npos ? 0 : last + 1);
  }
  return front ? text.substr(std::min(text.find_first_not_of(characters), text.size())) : text;
}

std::string changed_case(std::string text, bool upper) {
  for (char& c : text)
    if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = static_cast<char>(c ^ 0x20);
  return text;
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) throw UserError("replacing an empty string is not supported");
  std::string out;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size())
    out.append(text, at, found - at) += to;
  return out.append(text, at);
}

Json split(const std::string& text, const std::string& by) {
  Json out = Json::array();
  std::size_t at = 0;
  if (by.empty()) throw UserError("split() without a separator is not supported");
  for (std::size_t found; (found = text.find(by, at)) != text.npos; at = found + by.size())
    out.push_back(text.substr(at, found - at));
  out.push_back(text.substr(at));
  return out;
}

// As Python's json.dumps writes it: blanks after commas and colons, or one value a line.
void dump(const Json& value, int indent, int depth, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  const auto new_line = [&](int level) {
    if (indent >= 0) out += "\n" + std::string(static_cast<std::size_t>(indent * level), ' ');
  };
  out += value.is_object() ? '{' : '[';
  bool is_first = true;
  for (const auto& [key, item] : value.items()) {
    if (!is_first) out += indent >= 0 ? "," : ", ";
    is_first = false;
    new_line(depth + 1);
    if (value.is_object()) out += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
    dump(item, indent, depth + 1, out);
  }
  new_line(depth);
  out += value.is_object() ? '}' : ']';
}

std::size_t length_of(const Json& value) {
  if (value.is_structured()) return value.size();
  if (!value.is_string()) throw UserError(cat("a ", value.type_name(), " has no length"));
  // In characters, as Python counts.
  const auto& text = value.get_ref<const std::string&>();
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

Json pairs_of(const Json& value) {
  if (!value.is_object()) throw UserError(cat("a ", value.type_name(), " has no items"));
  Json out = Json::array();
  for (const auto& [key, item] : value.items()) out.push_back(Json::array({key, item}));
  return out;
}

const std::string& text_of(const Json& value) {
  if (!value.is_string()) throw UserError(cat("a string is wanted, not a ", value.type_name()));
  return value.get_ref<const std::string&>();
}

}  // namespace

TemplateValue TemplateValue::of(const Json& elsewhere) {
  TemplateValue out;
  out.elsewhere_ = &elsewhere;
  out.is_defined_ = true;
  return out;
}

Json TemplateArguments::get(std::size_t index, const std::string& keyword, const Json& otherwise) const {
  if (index < values.size()) return values[index];
  for (const auto& [name, value] : keywords)
    if (name == keyword) return value;
  return otherwise;
}

bool is_true(const TemplateValue& value) {
  if (!value.is_defined()) return false;
  const Json& json = value.json();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return json != 0;
  if (json.is_string()) return !text_of(json).empty();
  return !json.is_null() && !json.empty();
}

std::string printed(const TemplateValue& value) {
  if (!value.is_defined()) return "";
  const Json& json = value.json();
  if (json.is_string()) return text_of(json);
  if (json.is_boolean()) return json.get<bool>() ? "True" : "False";
  if (json.is_null()) return "None";
  if (json.is_number()) return json.dump();
  throw UserError(cat("an ", json.type_name(), " is printed only through the filter tojson"));
}

Json filtered(const std::string& name, const TemplateValue& value, const TemplateArguments& arguments) {
  if (name == "default" || name == "d") {
    const bool counts_false = arguments.get(1, "boolean", false) == true;
    const bool is_kept = value.is_defined() && (!counts_false || is_true(value));
    return is_kept ? value.json() : arguments.get(0, "default_value", "");
  }
  if (!value.is_defined()) throw UserError(cat("the filter ", name, " is given something undefined"));
  const Json& json = value.json();
  if (name == "trim") return stripped(printed(value), kPythonWhite, true, true);
  if (name == "upper" || name == "lower") return changed_case(printed(value), name == "upper");
  if (name == "string") return printed(value);
  if (name == "length" || name == "count") return length_of(json);
  if (name == "items") return pairs_of(json);
  if (name == "replace")
    return replaced(printed(value), text_of(arguments.get(0, "old", nullptr)),
                    text_of(arguments.get(1, "new", nullptr)));
  if ((name == "first" || name == "last") && json.is_array() && !json.empty())
    return name == "first" ? json.front() : json.back();
  if (name == "list" && json.is_array()) return json;
  if (name == "join" && json.is_array()) {
    std::string out;
    const std::string between = printed(arguments.get(0, "d", ""));
    for (std::size_t i = 0; i < json.size(); ++i)
      out += (i > 0 ? between : "") + printed(TemplateValue::of(json[i]));
    return out;
  }
  if (name == "tojson") {
    const Json indent = arguments.get(0, "indent", nullptr);
    std::string out;
    dump(json, indent.is_number_integer() ? std::clamp(indent.get<int>(), 0, 16) : -1, 0, out);
    return out;
  }
  throw UserError(cat("the filter '", name, "' is not supported for a ", json.type_name(),
                      "; known are default, first, items, join, last, length, list, lower, replace, string, "
                      "tojson, trim and upper"));
}

Json called_method(const std::string& name, const Json& value, const TemplateArguments& arguments) {
  const auto argument = [&](std::size_t i) { return text_of(arguments.get(i, "", nullptr)); };
  if (value.is_string()) {
    const std::string& text = text_of(value);
    if (name == "strip" || name == "lstrip" || name == "rstrip")
      return stripped(text, arguments.values.empty() ? std::string(kPythonWhite) : argument(0),
                      name != "rstrip", name != "lstrip");
    if (name == "startswith") return text.starts_with(argument(0));
    if (name == "endswith") return text.ends_with(argument(0));
    if (name == "upper" || name == "lower") return changed_case(text, name == "upper");
    if (name == "replace") return replaced(text, argument(0), argument(1));
    if (name == "split") return split(text, arguments.values.empty() ? "" : argument(0));
  }
  if (value.is_object()) {
    if (name == "items") return pairs_of(value);
    if (name == "get") {
      const auto found = value.find(argument(0));
      return found == value.end() ? arguments.get(1, "default", nullptr) : *found;
    }
    Json out = Json::array();
    for (const auto& [key, item] : value.items()) out.push_back(name == "keys" ? Json(key) : item);
    if (name == "keys" || name == "values") return out;
  }
  throw UserError(cat("the method '", name, "' of a ", value.type_name(), " is not supported"));
}

bool tested(const std::string& name, const TemplateValue& value) {
  if (name == "defined") return value.is_defined();
  if (name == "undefined") return !value.is_defined();
  const Json& json = value.json();
  const bool is = value.is_defined();
  if (name == "none") return is && json.is_null();
  if (name == "string") return is && json.is_string();
  if (name == "mapping") return is && json.is_object();
  if (name == "iterable" || name == "sequence") return is && (json.is_structured() || json.is_string());
  if (name == "boolean") return is && json.is_boolean();
  if (name == "true" || name == "false") return is && json == Json(name == "true");
  if (name == "number") return is && json.is_number();
  if (name == "integer") return is && json.is_number_integer();
  throw UserError(cat("the test '", name, "' is not supported"));
}

Json computed(const std::string& name, const TemplateValue& left, const TemplateValue& right) {
  if (name == "~") return printed(left) + printed(right);
  if (name == "==" || name == "!=") {
    const bool is_equal =
        left.is_defined() == right.is_defined() && (!left.is_defined() || left.json() == right.json());
    return is_equal == (name == "==");
  }
  if (!left.is_defined() || !right.is_defined())
    throw UserError(cat("'", name, "' is given something undefined"));
  const Json &a = left.json(), &b = right.json();
  if (name == "in") {
    if (b.is_string()) return text_of(b).find(text_of(a)) != std::string::npos;
    if (b.is_object()) return b.contains(text_of(a));
    if (b.is_array()) return std::ranges::find(b, a) != b.end();
  }
  const bool are_strings = a.is_string() && b.is_string(), are_numbers = a.is_number() && b.is_number();
  if ((name[0] == '<' || name[0] == '>') && (are_strings || are_numbers)) {
    const bool is_less = name[0] == '<' ? a < b : b < a;
    return is_less || (name.size() == 2 && a == b);
  }
  if (name == "+" && are_strings) return text_of(a) + text_of(b);
  if (name == "+" && a.is_array() && b.is_array()) {
    Json out = a;
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // so that no product overflows
  if (a.is_number_integer() && b.is_number_integer() && std::abs(a.get<double>()) < kMost &&
      std::abs(b.get<double>()) < kMost) {
    const auto x = a.get<std::int64_t>(), y = b.get<std::int64_t>();
    if (name == "+") return x + y;
    if (name == "-") return x - y;
    if (name == "*") return x * y;
    if ((name == "//" || name == "%") && y != 0) {
      const std::int64_t floor = x / y - ((x % y != 0) && ((x < 0) != (y < 0)) ? 1 : 0);
      return name == "//" ? floor : x - floor * y;
    }
  }
  throw UserError(
      cat("'", name, "' between a ", a.type_name(), " and a ", b.type_name(), " is not supported"));
}

}  // namespace tessera::data
