// Reads a regular expression, in the part of Oniguruma's syntax that split patterns use.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tessera/tokenizer/split/code_bits.hpp"

namespace tessera::tokenizer {

inline constexpr int kNoLimit = std::numeric_limits<int>::max();

struct RegexNode {
  enum class Kind {
    sequence,     // of the children; without any it matches the empty text
    choice,       // the first child that leads to a match
    set,          // one code point of sets[set]
    repeat,       // of the only child, `least` to `most` times
    atomic,       // the only child, whose other ways to match are not tried
    look,         // whether the only child matches here, without taking what it matches
    look_behind,  // whether a code point of sets[set] stands before
    text_begin,
    text_end,
    line_begin,
    line_end,
    word_boundary
  };  // clang-format off: the places of a text in one line
  // clang-format on
  enum class Greed { greedy, lazy, possessive };

  Kind kind = Kind::sequence;
  std::vector<RegexNode> children;
  int set = 0;
  int least = 0, most = 0;
  Greed greed = Greed::greedy;
  bool negated = false;  // of look, look_behind and word_boundary

  // Whether it can match without taking a code point.
  bool can_be_empty() const;
};

struct Regex {
  RegexNode root;
  std::vector<CodeBits> sets;
};

// Throws UserError that names what is not known, or why the pattern is none.
Regex parse_regex(const std::string& pattern);

}  // namespace tessera::tokenizer
