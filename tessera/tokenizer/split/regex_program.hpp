// A regular expression as a list of instructions.
#pragma once

#include "tessera/tokenizer/split/regex_syntax.hpp"

namespace tessera::tokenizer {

enum class RegexOp {
  done,
  jump,       // to `to`
  fork,       // to `to`, and if that fails to `other`
  set,        // takes one code point of `set`
  run,        // takes `least` to `most` of them
  atomic,     // what follows up to its `done` matches as a whole; then to `to`
  look,       // the same, but takes nothing
  assertion,  // takes nothing
};

struct Instruction {
  RegexOp op = RegexOp::done;
  int to = 0, other = 0, set = 0;
  int least = 0, most = 0;
  RegexNode::Greed greed = RegexNode::Greed::greedy;
  bool negated = false;
  RegexNode::Kind assertion = RegexNode::Kind::text_begin;
};

struct RegexProgram {
  std::vector<Instruction> instructions;
  CodeBits first;  // no match begins with another
};

// Throws UserError if it would be too long.
RegexProgram compile_regex(const Regex& regex);

}  // namespace tessera::tokenizer
