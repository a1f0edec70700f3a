// Finds the words of a text, as the regular expression of a split pattern would.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera::tokenizer {

struct Match {
  std::size_t begin = std::string_view::npos, end = 0;
  explicit operator bool() const { return begin != std::string_view::npos; }
};

// Const, and shared by threads. Texts are valid UTF-8; places are in bytes. No match is empty.
class Matcher {
 public:
  virtual ~Matcher() = default;
  // The first match that begins at `from` or later, where a code point begins.
  virtual Match find(std::string_view text, std::size_t from) const = 0;
  // The first matches, each behind the one before it, as many as there is room for; returns how many there
  // are.
  virtual std::size_t find_some(std::string_view text, std::size_t from, std::span<Match> out) const;
};

// The hand-written matcher of a pattern that a known tokenizer has, or else one that interprets it. Throws
// UserError if the pattern uses what the interpreter does not know, and names it.
std::unique_ptr<Matcher> make_matcher(const std::string& pattern);

// The hand-written one; nothing if the pattern is not among the known.
std::unique_ptr<Matcher> known_matcher(std::string_view pattern);

// Finds a text itself; an empty one is nowhere.
std::unique_ptr<Matcher> text_matcher(std::string text);

// Finds single code points of a set, or runs of \w and runs of neither \w nor \s.
std::unique_ptr<Matcher> digit_matcher();
std::unique_ptr<Matcher> punctuation_matcher();
std::unique_ptr<Matcher> space_matcher();
std::unique_ptr<Matcher> word_matcher();

}  // namespace tessera::tokenizer
