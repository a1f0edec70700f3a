// Reads single characters and classes of characters out of a regular expression.
#pragma once

#include <optional>
#include <string>

#include "tessera/tokenizer/split/code_bits.hpp"

namespace tessera::tokenizer {

// A place in a pattern. All that is not known is refused by a UserError that names it.
class RegexReader {
 public:
  explicit RegexReader(const std::string& pattern);

  bool at_end() const { return at_ >= codes_.size(); }
  // 0 behind the end.
  char32_t peek(std::size_t ahead = 0) const { return at_ + ahead < codes_.size() ? codes_[at_ + ahead] : 0; }
  char32_t next();
  bool take(char32_t code);
  std::optional<int> number();
  std::size_t place() const { return at_; }
  void go_to(std::size_t place) { at_ = place; }

  // [..], with classes inside of it.
  CodeBits bracket_class();
  // A character, or a backslash and what follows it, outside of brackets.
  CodeBits single();

  [[noreturn]] void refuse(const std::string& what) const;

 protected:
  bool ignore_case_ = false;

 private:
  struct Item {
    CodeBits bits;
    std::optional<char32_t> code;  // of a single character
  };
  Item escaped();
  CodeBits property(bool negated);
  char32_t hexadecimal(int least, int most);
  void add_other_case(CodeBits& bits) const;

  const std::string& pattern_;
  std::u32string codes_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace tessera::tokenizer
