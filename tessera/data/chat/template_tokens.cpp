#include "tessera/data/chat/template_tokens.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

constexpr std::string_view kWhite = " \t\r\n\f\v";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class TemplateLexer {
 public:
  // The end of the last line is not part of the template.
  TemplateLexer(std::string_view text, const std::string& name)
      : text_(text.substr(0, text.size() - (text.ends_with('\n') ? 1 : 0))), name_(name) {}

  std::vector<TemplateToken> tokens() {
    while (at_ < text_.size()) {
      const std::size_t open = next_opening();
      add_text(open);
      if (open == text_.size()) break;
      const char kind = text_[open + 1];
      at_ = open + 2;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      if (kind == '#') {
        const std::size_t close = text_.find("#}", at_);
        if (close == text_.npos) complain("a comment has no end");
        move_to(close + 2);
        after_tag(close > 0 ? text_[close - 1] : ' ', true);
      } else {
        inside(kind == '%');
      }
    }
    out_.push_back({TokenKind::end, "", line_});
    return std::move(out_);
  }

 private:
  [[noreturn]] void complain(const std::string& what) const {
    throw UserError(cat("chat template '", name_, "', line ", line_, ": ", what));
  }

  std::size_t next_opening() const {
    for (std::size_t i = at_; i + 1 < text_.size(); ++i)
      if (text_[i] == '{' && (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#')) return i;
    return text_.size();
  }

  void move_to(std::size_t at) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, at)),
                                         text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    at_ = at;
  }

  // Text up to the opening, without the white space that the opening takes.
  void add_text(std::size_t open) {
    std::string_view text = text_.substr(at_, open - at_);
    const int line = line_;
    move_to(open);
    if (open < text_.size()) {
      const char mark = open + 2 < text_.size() ? text_[open + 2] : ' ';
      if (mark == '-') {
        const std::size_t last = text.find_last_not_of(kWhite);
        text = text.substr(0, last == text.npos ? 0 : last + 1);
      } else if (text_[open + 1] != '{' && mark != '+') {
        const std::size_t last = text.find_last_not_of(" \t");
        const bool is_line_start = last == text.npos ? is_line_start_ : text[last] == '\n';
        if (is_line_start) text = text.substr(0, last == text.npos ? 0 : last + 1);
      }
    }
    if (!text.empty()) out_.push_back({TokenKind::text, std::string(text), line});
  }

  // `before` is the last character inside of the tag.
  void after_tag(char before, bool is_block) {
    is_line_start_ = false;
    if (before == '-') {
      const std::size_t next = text_.find_first_not_of(kWhite, at_);
      move_to(next == text_.npos ? text_.size() : next);
    } else if (is_block && at_ < text_.size() && text_[at_] == '\n') {
      move_to(at_ + 1);
      is_line_start_ = true;
    }
  }

  // One token of a tag or an output; returns false at its end.
  bool inside_token(bool is_block) {
    const std::size_t next = text_.find_first_not_of(kWhite, at_);
    if (next == text_.npos) complain("a tag has no end");
    move_to(next);
    const std::string_view end = is_block ? "%}" : "}}";
    const char c = text_[at_];
    if (text_.substr(at_).starts_with(end) || (c == '-' && text_.substr(at_ + 1).starts_with(end))) {
      out_.push_back({is_block ? TokenKind::end_tag : TokenKind::end_output, "", line_});
      at_ += c == '-' ? 3 : 2;
      after_tag(c, is_block);
      return false;
    }
    if (is_letter(c)) {
      add_while(TokenKind::name, [](char x) { return is_letter(x) || is_digit(x); });
    } else if (is_digit(c)) {
      add_while(TokenKind::number, [](char x) { return is_digit(x) || x == '.'; });
    } else if (c == '\'' || c == '"') {
      add_string(c);
    } else {
      add_symbol();
    }
    return true;
  }

  void inside(bool is_block) {
    out_.push_back({is_block ? TokenKind::begin_tag : TokenKind::begin_output, "", line_});
    while (inside_token(is_block)) {
    }
  }

  template <typename Holds>
  void add_while(TokenKind kind, const Holds& holds) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && holds(text_[at_])) ++at_;
    out_.push_back({kind, std::string(text_.substr(begin, at_ - begin)), line_});
  }

  void add_string(char quote) {
    std::string value;
    const int line = line_;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '\\' && at_ + 1 < text_.size()) {
        c = text_[++at_];
        const std::string_view letters = "ntr", meant = "\n\t\r";
        if (const auto found = letters.find(c); found != letters.npos) {
          c = meant[found];
        } else if (c != '\\' && c != '\'' && c != '"') {
          complain(cat("\\", c, " in a string is not understood"));
        }
      }
      value += c;
    }
    if (at_ == text_.size()) complain("a string has no end");
    ++at_;
    out_.push_back({TokenKind::string, value, line});
  }

  void add_symbol() {
    static constexpr std::array<std::string_view, 25> kSymbols = {
        "==", "!=", "<=", ">=", "//", "**", "(", ")", "[", "]", "{", "}", ".",
        ",",  ":",  "|",  "~",  "+",  "-",  "*", "/", "%", "<", ">", "="};
    for (const std::string_view symbol : kSymbols)
      if (text_.substr(at_).starts_with(symbol)) {
        out_.push_back({TokenKind::symbol, std::string(symbol), line_});
        at_ += symbol.size();
        return;
      }
    complain(cat("'", text_[at_], "' is not understood"));
  }

  std::string_view text_;
  const std::string& name_;
  std::vector<TemplateToken> out_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;  // where the text that follows begins
};

}  // namespace

std::vector<TemplateToken> template_tokens(std::string_view text, const std::string& name) {
  return TemplateLexer(text, name).tokens();
}

}  // namespace tessera::data
