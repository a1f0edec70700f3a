// What expressions of a chat template are worth, and the functions, filters and tests that they may call.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/data/chat/template_tree.hpp"

namespace tessera::data {

// A JSON value that is held, or one that lies elsewhere and outlives this; or undefined.
class TemplateValue {
 public:
  TemplateValue() = default;  // undefined
  TemplateValue(Json value) : held_(std::move(value)), is_defined_(true) {}
  static TemplateValue of(const Json& elsewhere);

  bool is_defined() const { return is_defined_; }
  bool is_elsewhere() const { return elsewhere_ != nullptr; }
  bool is_namespace = false;
  const Json& json() const { return elsewhere_ ? *elsewhere_ : held_; }

 private:
  Json held_;
  const Json* elsewhere_ = nullptr;
  bool is_defined_ = false;
};

// Arguments of a call, filter or test.
struct TemplateArguments {
  std::vector<Json> values;
  std::vector<std::pair<std::string, Json>> keywords;
  // Number `index`, or the keyword; `otherwise` if it isn't given.
  Json get(std::size_t index, const std::string& keyword, const Json& otherwise) const;
};

bool is_true(const TemplateValue& value);
// As Python's str() has it. Throws UserError of lists and dictionaries.
std::string printed(const TemplateValue& value);

// `value | name(...)`, `value.name(...)` and `value is name`. Throw UserError naming what is not supported.
Json filtered(const std::string& name, const TemplateValue& value, const TemplateArguments& arguments);
Json called_method(const std::string& name, const Json& value, const TemplateArguments& arguments);
bool tested(const std::string& name, const TemplateValue& value);
// `left name right` of everything but `and` and `or`.
Json computed(const std::string& name, const TemplateValue& left, const TemplateValue& right);

}  // namespace tessera::data
