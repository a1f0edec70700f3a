#include "tessera/data/chat/template_parser.hpp"

#include <span>

#include "tessera/base/error.hpp"

namespace tessera::data {

bool TemplateCursor::take_symbol(std::string_view text) {
  if (!is_symbol(text)) return false;
  take();
  return true;
}

bool TemplateCursor::take_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void TemplateCursor::expect_symbol(std::string_view text) {
  if (!take_symbol(text)) complain(cat("'", text, "' is missing before '", now().text, "'"));
}

std::string TemplateCursor::expect_name() {
  if (now().kind != TokenKind::name) complain(cat("a name is missing before '", now().text, "'"));
  return take().text;
}

void TemplateCursor::complain(const std::string& what) const {
  throw UserError(cat("chat template '", name_, "', line ", now().line, ": ", what));
}

namespace {

// By recursive descent; a method for each level of precedence, the loosest first.
class ExpressionParser {
 public:
  using Kind = Expression::Kind;

  explicit ExpressionParser(TemplateCursor& cursor) : cursor_(cursor) {}

  Expression expression() {
    constexpr int kMostDepth = 60;
    if (++depth_ > kMostDepth) cursor_.complain("an expression is nested too deep");
    Expression out = either();
    if (cursor_.is_name("if")) {
      const int line = cursor_.take().line;
      Expression condition = either();
      Expression otherwise{.line = line, .name = kLeftOut, .value = ""};
      if (cursor_.take_name("else")) otherwise = expression();
      out = {.kind = Kind::choice, .line = line, .children = {out, condition, otherwise}};
    }
    --depth_;
    return out;
  }

 private:
  Expression binary(std::string name, int line, Expression left, Expression right) {
    limit_length();
    return {.kind = Kind::binary,
            .line = line,
            .name = std::move(name),
            .children = {std::move(left), std::move(right)}};
  }

  // Chains of operators are as deep as they are long, when they are computed.
  void limit_length() {
    constexpr int kMostOperators = 400;
    if (++num_operators_ > kMostOperators) cursor_.complain("an expression has too many parts");
  }

  Expression either() {
    Expression left = both();
    while (cursor_.is_name("or")) {
      const int line = cursor_.take().line;
      left = binary("or", line, std::move(left), both());
    }
    return left;
  }

  Expression both() {
    Expression left = negation();
    while (cursor_.is_name("and")) {
      const int line = cursor_.take().line;
      left = binary("and", line, std::move(left), negation());
    }
    return left;
  }

  Expression negation() {
    if (!cursor_.is_name("not")) return comparison();
    limit_length();
    const int line = cursor_.take().line;
    return {.kind = Kind::unary, .line = line, .name = "not", .children = {negation()}};
  }

  Expression comparison() {
    Expression left = sum();
    for (;;) {
      const int line = cursor_.now().line;
      bool is_compared = false;
      for (const char* symbol : {"==", "!=", "<=", ">=", "<", ">"})
        if (!is_compared && cursor_.take_symbol(symbol)) {
          left = binary(symbol, line, std::move(left), sum());
          is_compared = true;
        }
      if (is_compared) continue;
      if (cursor_.take_name("in")) {
        left = binary("in", line, std::move(left), sum());
      } else if (cursor_.is_name("not")) {
        cursor_.take();
        if (!cursor_.take_name("in")) cursor_.complain("'in' is missing after 'not'");
        left = {.kind = Kind::unary,
                .line = line,
                .name = "not",
                .children = {binary("in", line, std::move(left), sum())}};
      } else if (cursor_.take_name("is")) {
        const bool is_negated = cursor_.take_name("not");
        limit_length();
        left = {
            .kind = Kind::test, .line = line, .name = cursor_.expect_name(), .children = {std::move(left)}};
        if (is_negated)
          left = {.kind = Kind::unary, .line = line, .name = "not", .children = {std::move(left)}};
      } else {
        return left;
      }
    }
  }

  Expression chain(std::initializer_list<const char*> symbols, Expression (ExpressionParser::*part)()) {
    Expression left = (this->*part)();
    for (bool is_found = true; is_found;) {
      is_found = false;
      for (const char* symbol : symbols)
        if (cursor_.is_symbol(symbol)) {
          const int line = cursor_.take().line;
          left = binary(symbol, line, std::move(left), (this->*part)());
          is_found = true;
        }
    }
    return left;
  }
  Expression sum() { return chain({"+", "-"}, &ExpressionParser::joined); }
  Expression joined() { return chain({"~"}, &ExpressionParser::product); }
  Expression product() { return chain({"*", "/", "//", "%"}, &ExpressionParser::sign); }

  Expression sign() {
    if (!cursor_.is_symbol("-")) return postfix(primary());
    limit_length();
    const int line = cursor_.take().line;
    return {.kind = Kind::unary, .line = line, .name = "-", .children = {sign()}};
  }

  // Up to the closing symbol, which is taken; name=value goes to the keywords.
  void arguments(Expression& to, const char* close) {
    while (!cursor_.take_symbol(close)) {
      Expression argument = expression();
      if (argument.kind == Kind::variable && cursor_.take_symbol("=")) {
        to.keyword_names.push_back(argument.name);
        to.keyword_values.push_back(expression());
      } else {
        to.children.push_back(std::move(argument));
      }
      if (!cursor_.is_symbol(close)) cursor_.expect_symbol(",");
    }
  }

  Expression bound() {
    if (cursor_.is_symbol(":") || cursor_.is_symbol("]")) return {.line = cursor_.now().line};
    return expression();
  }

  Expression subscript(Expression of) {
    const int line = cursor_.now().line;
    Expression first = bound();
    if (!cursor_.take_symbol(":")) {
      cursor_.expect_symbol("]");
      return {.kind = Kind::index, .line = line, .children = {std::move(of), std::move(first)}};
    }
    Expression last = bound(), step{.line = line};
    if (cursor_.take_symbol(":")) step = bound();
    cursor_.expect_symbol("]");
    return {.kind = Kind::slice,
            .line = line,
            .children = {std::move(of), std::move(first), std::move(last), std::move(step)}};
  }

  Expression postfix(Expression of) {
    for (;;) {
      const int line = cursor_.now().line;
      if (cursor_.take_symbol(".")) {
        of = {.kind = Kind::attribute,
              .line = line,
              .name = cursor_.expect_name(),
              .children = {std::move(of)}};
      } else if (cursor_.take_symbol("[")) {
        of = subscript(std::move(of));
      } else if (cursor_.take_symbol("(")) {
        of = {.kind = Kind::call, .line = line, .children = {std::move(of)}};
        arguments(of, ")");
      } else if (cursor_.take_symbol("|")) {
        of = {.kind = Kind::filter, .line = line, .name = cursor_.expect_name(), .children = {std::move(of)}};
        if (cursor_.take_symbol("(")) arguments(of, ")");
      } else {
        return of;
      }
      limit_length();
    }
  }

  Expression primary() {
    const TemplateToken token = cursor_.take();
    Expression out{.line = token.line};
    if (token.kind == TokenKind::string) {
      out.value = token.text;
    } else if (token.kind == TokenKind::number) {
      out.value = Json::parse(token.text, nullptr, false);
      if (!out.value.is_number()) cursor_.complain(cat("'", token.text, "' is no number"));
    } else if (token.kind == TokenKind::name) {
      if (token.text == "true" || token.text == "True") return out.value = true, out;
      if (token.text == "false" || token.text == "False") return out.value = false, out;
      if (token.text == "none" || token.text == "None") return out;
      out.kind = Kind::variable;
      out.name = token.text;
    } else if (token.kind == TokenKind::symbol && token.text == "(") {
      out = expression();
      cursor_.expect_symbol(")");
    } else if (token.kind == TokenKind::symbol && token.text == "[") {
      out.kind = Kind::list;
      arguments(out, "]");
    } else if (token.kind == TokenKind::symbol && token.text == "{") {
      out.kind = Kind::dictionary;
      while (!cursor_.take_symbol("}")) {
        out.children.push_back(expression());
        cursor_.expect_symbol(":");
        out.children.push_back(expression());
        if (!cursor_.is_symbol("}")) cursor_.expect_symbol(",");
      }
    } else {
      cursor_.complain(cat("an expression is missing before '", token.text, "'"));
    }
    return out;
  }

  TemplateCursor& cursor_;
  int depth_ = 0, num_operators_ = 0;
};

}  // namespace

Expression parse_expression(TemplateCursor& cursor) { return ExpressionParser(cursor).expression(); }

}  // namespace tessera::data
