// Takes the text of a chat template apart: plain text, and the tokens of {{ }} and {% %}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

enum class TokenKind {
  text,
  begin_output,
  end_output,
  begin_tag,
  end_tag,
  name,
  string,
  number,
  symbol,
  end
};

struct TemplateToken {
  TokenKind kind = TokenKind::end;
  std::string text;
  int line = 0;  // counted from 1
  bool operator==(const TemplateToken&) const = default;
};

// White space as `transformers` sets it: a tag's line keeps neither the blanks before the tag nor the end
// after it, and a - inside a tag takes all white space on its side. Comments are dropped. Ends with
// TokenKind::end. Throws UserError with the line.
std::vector<TemplateToken> template_tokens(std::string_view text, const std::string& name);

}  // namespace tessera::data
