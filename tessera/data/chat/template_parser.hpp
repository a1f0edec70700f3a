// Expressions of a chat template from its tokens.
#pragma once

#include <string>
#include <vector>

#include "tessera/data/chat/template_tree.hpp"

namespace tessera::data {

// Moves through the tokens of a template.
class TemplateCursor {
 public:
  TemplateCursor(std::vector<TemplateToken> tokens, std::string name)
      : tokens_(std::move(tokens)), name_(std::move(name)) {}

  const TemplateToken& now() const { return tokens_[at_]; }
  TemplateToken take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_symbol(std::string_view text) const {
    return now().kind == TokenKind::symbol && now().text == text;
  }
  bool is_name(std::string_view text) const { return now().kind == TokenKind::name && now().text == text; }
  bool take_symbol(std::string_view text);
  bool take_name(std::string_view text);
  void expect_symbol(std::string_view text);
  std::string expect_name();
  [[noreturn]] void complain(const std::string& what) const;

 private:
  std::vector<TemplateToken> tokens_;
  std::string name_;
  std::size_t at_ = 0;
};

// Throws UserError, also of expressions that are nested too deep.
Expression parse_expression(TemplateCursor& cursor);

}  // namespace tessera::data
