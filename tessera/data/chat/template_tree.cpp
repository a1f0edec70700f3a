#include "tessera/data/chat/template_tree.hpp"

#include "tessera/base/text.hpp"
#include "tessera/data/chat/template_parser.hpp"

namespace tessera::data {
namespace {

class StatementParser {
 public:
  using Kind = Statement::Kind;

  explicit StatementParser(TemplateCursor cursor) : cursor_(std::move(cursor)) {}

  std::vector<Statement> whole() {
    auto out = body();
    if (cursor_.now().kind != TokenKind::end)
      cursor_.complain(cat("'", word(), "' belongs to no tag before it"));
    return out;
  }

 private:
  // Of the tag that is looked at, whose begin was taken.
  std::string word() const { return cursor_.now().text; }

  void end_tag() {
    if (cursor_.now().kind != TokenKind::end_tag)
      cursor_.complain(cat("'", cursor_.now().text, "' is not understood there"));
    cursor_.take();
  }

  // Statements up to a tag that belongs to what is around them: that tag's begin is taken, its word is not.
  std::vector<Statement> body() {
    constexpr int kMostDepth = 40;
    if (++depth_ > kMostDepth) cursor_.complain("tags are nested too deep");
    std::vector<Statement> out;
    for (;;) {
      const TemplateToken token = cursor_.now();
      if (token.kind == TokenKind::end) break;
      cursor_.take();
      if (token.kind == TokenKind::text) {
        out.push_back({.kind = Kind::text, .line = token.line, .text = token.text});
      } else if (token.kind == TokenKind::begin_output) {
        out.push_back({.kind = Kind::output, .line = token.line, .expressions = {parse_expression(cursor_)}});
        if (cursor_.now().kind != TokenKind::end_output) cursor_.complain("'}}' is missing");
        cursor_.take();
      } else if (!statement(out)) {
        break;
      }
    }
    --depth_;
    return out;
  }

  bool statement(std::vector<Statement>& out) {
    const std::string tag = word();
    if (tag.starts_with("end") || tag == "else" || tag == "elif") return false;
    const int line = cursor_.take().line;
    if (tag == "if") {
      out.push_back(condition(line));
    } else if (tag == "for") {
      out.push_back(loop(line));
    } else if (tag == "set") {
      out.push_back(set(line));
    } else if (tag == "generation") {  // marks what the model says; it changes nothing of the text
      end_tag();
      for (Statement& inner : body()) out.push_back(std::move(inner));
      close("endgeneration");
    } else {
      cursor_.complain(cat("the tag '", tag, "' is not supported; if, for, set and generation are"));
    }
    return true;
  }

  void close(const char* tag) {
    if (!cursor_.take_name(tag)) cursor_.complain(cat("'", tag, "' is missing"));
    end_tag();
  }

  Statement condition(int line) {
    Statement out{.kind = Kind::condition, .line = line};
    for (bool has_else = false;;) {
      if (!has_else) out.expressions.push_back(parse_expression(cursor_));
      end_tag();
      out.bodies.push_back(body());
      if (!has_else && cursor_.take_name("elif")) continue;
      if (!has_else && cursor_.take_name("else")) {
        has_else = true;
        continue;
      }
      close("endif");
      return out;
    }
  }

  Statement loop(int line) {
    Statement out{.kind = Kind::loop, .line = line, .names = {cursor_.expect_name()}};
    if (cursor_.take_symbol(",")) out.names.push_back(cursor_.expect_name());
    if (!cursor_.take_name("in")) cursor_.complain("'in' is missing");
    // A condition of the loop is no choice between two values: it has no else.
    Expression over = parse_expression(cursor_);
    if (over.kind == Expression::Kind::choice && over.children[2].name == kLeftOut) {
      out.expressions = {over.children[0], over.children[1]};
    } else {
      out.expressions = {over};
    }
    if (cursor_.is_name("recursive")) cursor_.complain("recursive loops are not supported");
    end_tag();
    out.bodies.push_back(body());
    if (cursor_.is_name("else")) cursor_.complain("'else' of a loop is not supported");
    close("endfor");
    return out;
  }

  Statement set(int line) {
    Statement out{.kind = Kind::set, .line = line, .names = {cursor_.expect_name()}};
    if (cursor_.take_symbol(".")) out.text = cursor_.expect_name();
    if (!cursor_.take_symbol("=")) cursor_.complain("'set' without '=' is not supported");
    out.expressions.push_back(parse_expression(cursor_));
    end_tag();
    return out;
  }

  TemplateCursor cursor_;
  int depth_ = 0;
};

}  // namespace

std::vector<Statement> parse_template(std::string_view text, const std::string& name) {
  return StatementParser(TemplateCursor(template_tokens(text, name), name)).whole();
}

}  // namespace tessera::data
