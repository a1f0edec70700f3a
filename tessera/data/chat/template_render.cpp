#include "tessera/data/chat/template_render.hpp"

#include <algorithm>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/data/chat/template_value.hpp"

namespace tessera::data {
namespace {

class Renderer {
 public:
  Renderer(const Json& variables, const std::string& name) : name_(name), frames_(1) {
    for (const auto& [key, value] : variables.items()) frames_.front()[key] = value;
  }

  std::string text_of(const std::vector<Statement>& statements) {
    try {
      run(statements);
    } catch (const UserError& error) {
      throw UserError(cat("chat template '", name_, "', line ", line_, ": ", error.what()));
    }
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kMostSteps = 200'000, kLoopCost = 10, kMostBytes = 32 << 20;
  using Kind = Expression::Kind;
  using Frame = std::map<std::string, TemplateValue>;

  void count(std::size_t cost) {
    if ((steps_ += cost) > kMostSteps) throw UserError("it computes for too long");
  }

  // Of text that is written or made on the way.
  void take_bytes(std::size_t bytes) {
    if ((bytes_ += bytes) > kMostBytes) throw UserError("it makes more than 32 MiB of text");
  }

  // What it costs to hold a value, which a template could double with every step.
  Json weighed(Json value) {
    constexpr int kMostDepth = 100;
    const auto cost = [this](const auto& self, const Json& of, int depth) -> std::size_t {
      if (depth > kMostDepth) throw UserError("lists are nested too deep");
      std::size_t sum = 1;
      if (of.is_string()) take_bytes(of.get_ref<const std::string&>().size());
      if (of.is_structured())
        for (const Json& item : of) sum += self(self, item, depth + 1);
      return sum;
    };
    count(cost(cost, value, 0));
    return value;
  }

  void write(const std::string& text) {
    take_bytes(text.size());
    out_ += text;
  }

  void run(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      count(1);
      line_ = statement.line;
      switch (statement.kind) {
        case Statement::Kind::text:
          write(statement.text);
          break;
        case Statement::Kind::output:
          write(printed(value_of(statement.expressions[0])));
          break;
        case Statement::Kind::condition:
          run_condition(statement);
          break;
        case Statement::Kind::loop:
          run_loop(statement);
          break;
        case Statement::Kind::set:
          run_set(statement);
          break;
      }
    }
  }

  void run_condition(const Statement& statement) {
    for (std::size_t i = 0; i < statement.bodies.size(); ++i)
      if (i >= statement.expressions.size() || is_true(value_of(statement.expressions[i])))
        return run(statement.bodies[i]);
  }

  // Of a name, or of both names of a pair.
  void give(const Statement& statement, const Json& item) {
    if (statement.names.size() == 1) {
      frames_.back()[statement.names[0]] = TemplateValue::of(item);
      return;
    }
    if (!item.is_array() || item.size() != 2) throw UserError("a loop over pairs meets something else");
    for (std::size_t i : {0, 1}) frames_.back()[statement.names[i]] = TemplateValue::of(item[i]);
  }

  // The items that pass the loop's condition are known before its body begins, as loop.last asks for them.
  void run_loop(const Statement& statement) {
    const Json over = weighed(list_of(value_of(statement.expressions[0])));
    std::vector<const Json*> items;
    frames_.emplace_back();
    for (const Json& item : over) {
      count(1);
      if (statement.expressions.size() > 1) {
        give(statement, item);
        if (!is_true(value_of(statement.expressions[1]))) continue;
      }
      items.push_back(&item);
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      count(kLoopCost);
      frames_.back().clear();
      give(statement, *items[i]);
      frames_.back()["loop"] = Json{{"index", i + 1},         {"index0", i},
                                    {"first", i == 0},        {"last", i + 1 == items.size()},
                                    {"length", items.size()}, {"revindex0", items.size() - 1 - i}};
      run(statement.bodies[0]);
    }
    frames_.pop_back();
  }

  void run_set(const Statement& statement) {
    TemplateValue value = owned(value_of(statement.expressions[0]));
    if (statement.text.empty()) {
      frames_.back()[statement.names[0]] = std::move(value);
      return;
    }
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
      const auto found = frame->find(statement.names[0]);
      if (found == frame->end()) continue;
      if (!found->second.is_namespace) break;
      Json changed = found->second.json();
      changed[statement.text] = value.is_defined() ? value.json() : Json();
      found->second = TemplateValue(weighed(std::move(changed)));
      found->second.is_namespace = true;
      return;
    }
    throw UserError(cat("'", statement.names[0], "' is no namespace()"));
  }

  static TemplateValue owned(const TemplateValue& value) {
    TemplateValue out = value.is_defined() ? TemplateValue(Json(value.json())) : TemplateValue();
    out.is_namespace = value.is_namespace;
    return out;
  }

  static Json list_of(const TemplateValue& value) {
    if (!value.is_defined()) return Json::array();
    if (value.json().is_array()) return value.json();
    if (!value.json().is_object()) throw UserError(cat("a loop can't go over a ", value.json().type_name()));
    Json keys = Json::array();
    for (const auto& [key, item] : value.json().items()) keys.push_back(key);
    return keys;
  }

  TemplateValue value_of(const Expression& expression) {
    count(1);
    const auto child = [&](std::size_t i) { return value_of(expression.children[i]); };
    switch (expression.kind) {
      case Kind::literal:
        return TemplateValue::of(expression.value);
      case Kind::variable:
        return variable(expression.name);
      case Kind::list:
      case Kind::dictionary:
        return collection(expression);
      case Kind::attribute:
        return member(child(0), Json(expression.name));
      case Kind::index:
        return member(child(0), child(1).json());
      case Kind::slice:
        return slice(expression);
      case Kind::call:
        return call(expression);
      case Kind::filter: {
        const TemplateValue value = child(0);
        return weighed(filtered(expression.name, value, arguments(expression)));
      }
      case Kind::test:
        return Json(tested(expression.name, child(0)));
      case Kind::unary:
        if (expression.name == "not") return Json(!is_true(child(0)));
        return computed("-", Json(0), child(0));
      case Kind::binary:
        return binary(expression);
      case Kind::choice:
        return is_true(child(1)) ? child(0) : child(2);
    }
    throw_bug(__FILE__, __LINE__, "kind", "unknown expression");
  }

  TemplateValue variable(const std::string& name) const {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame)
      if (const auto found = frame->find(name); found != frame->end()) {
        if (!found->second.is_defined()) return {};
        TemplateValue out = TemplateValue::of(found->second.json());
        out.is_namespace = found->second.is_namespace;
        return out;
      }
    return {};
  }

  TemplateValue collection(const Expression& expression) {
    Json out = expression.kind == Kind::list ? Json::array() : Json::object();
    for (std::size_t i = 0; i < expression.children.size(); ++i) {
      const Json value = value_of(expression.children[i]).json();
      if (expression.kind == Kind::list) {
        out.push_back(value);
      } else {
        if (!value.is_string()) throw UserError("keys of dictionaries are strings");
        out[value.get<std::string>()] = value_of(expression.children[++i]).json();
      }
    }
    return weighed(std::move(out));
  }

  // What lies in something that outlives the expression is not copied.
  TemplateValue member(const TemplateValue& of, const Json& key) {
    const auto inside = [&](const Json& item) {
      return of.is_elsewhere() ? TemplateValue::of(item) : TemplateValue(weighed(item));
    };
    if (!of.is_defined())
      throw UserError(
          cat("something undefined has no ", key.dump(-1, ' ', true, Json::error_handler_t::replace)));
    const Json& json = of.json();
    if (json.is_object() && key.is_string()) {
      const auto found = json.find(key.get_ref<const std::string&>());
      return found == json.end() ? TemplateValue() : inside(*found);
    }
    if (json.is_array() && key.is_number_integer()) {
      const auto size = static_cast<std::int64_t>(json.size());
      const auto index = key.get<std::int64_t>();
      const std::int64_t at = index < 0 ? index + size : index;
      return at < 0 || at >= size ? TemplateValue() : inside(json[static_cast<std::size_t>(at)]);
    }
    return {};
  }

  TemplateValue slice(const Expression& expression) {
    const Json of = value_of(expression.children[0]).json();
    const Json step = value_of(expression.children[3]).json();
    if (!of.is_array()) throw UserError(cat("a part of a ", of.type_name(), " is not supported"));
    const auto size = static_cast<std::int64_t>(of.size());
    const auto bound = [&](std::size_t child, std::int64_t otherwise) {
      const Json given = value_of(expression.children[child]).json();
      if (!given.is_number_integer()) return otherwise;
      const auto at = given.get<std::int64_t>();
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const bool is_whole = expression.children[1].value.is_null() && expression.children[2].value.is_null();
    Json out = Json::array();
    if (step == -1 && is_whole) {
      for (std::int64_t i = size - 1; i >= 0; --i) out.push_back(of[static_cast<std::size_t>(i)]);
      return out;
    }
    if (!step.is_null() && step != 1)
      throw UserError("steps of a list other than 1, and -1 of all, are not supported");
    for (std::int64_t i = bound(1, 0), end = bound(2, size); i < end; ++i)
      out.push_back(of[static_cast<std::size_t>(i)]);
    return out;
  }

  TemplateArguments arguments(const Expression& expression) {
    TemplateArguments out;
    for (std::size_t i = 1; i < expression.children.size(); ++i)
      out.values.push_back(value_of(expression.children[i]).json());
    for (std::size_t i = 0; i < expression.keyword_names.size(); ++i)
      out.keywords.emplace_back(expression.keyword_names[i], value_of(expression.keyword_values[i]).json());
    return out;
  }

  TemplateValue call(const Expression& expression) {
    const Expression& callee = expression.children[0];
    const TemplateArguments given = arguments(expression);
    if (callee.kind == Kind::attribute) {
      const TemplateValue of = value_of(callee.children[0]);
      if (!of.is_defined()) throw UserError(cat("something undefined has no method '", callee.name, "'"));
      return weighed(called_method(callee.name, of.json(), given));
    }
    if (callee.name == "raise_exception")
      throw UserError(cat("the template refuses the conversation: ", printed(given.get(0, "message", ""))));
    if (callee.name == "namespace") {
      Json object = Json::object();
      for (const auto& [name, value] : given.keywords) object[name] = value;
      TemplateValue out(std::move(object));
      out.is_namespace = true;
      return out;
    }
    if (callee.name == "range") {
      const Json end = given.get(given.values.size() > 1 ? 1 : 0, "", 0),
                 begin = given.values.size() > 1 ? given.values[0] : Json(0);
      if (!end.is_number_integer() || !begin.is_number_integer())
        throw UserError("range() wants whole numbers");
      Json out = Json::array();
      for (auto i = begin.get<std::int64_t>(); i < end.get<std::int64_t>(); ++i) count(1), out.push_back(i);
      return out;
    }
    throw UserError(
        cat("the function '", callee.name, "' is not supported; raise_exception, namespace and range are"));
  }

  TemplateValue binary(const Expression& expression) {
    const TemplateValue left = value_of(expression.children[0]);
    if (expression.name == "and") return is_true(left) ? value_of(expression.children[1]) : left;
    if (expression.name == "or") return is_true(left) ? left : value_of(expression.children[1]);
    return weighed(computed(expression.name, left, value_of(expression.children[1])));
  }

  const std::string& name_;
  std::vector<Frame> frames_;  // of variables, the innermost last
  std::string out_;
  std::size_t steps_ = 0, bytes_ = 0;
  int line_ = 0;
};

}  // namespace

std::string rendered(const std::vector<Statement>& statements, const Json& variables,
                     const std::string& name) {
  return Renderer(variables, name).text_of(statements);
}

}  // namespace tessera::data
