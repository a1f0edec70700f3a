#include "tessera/tokenizer/split/regex_syntax.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/split/regex_classes.hpp"

namespace tessera::tokenizer {

namespace {

using Kind = RegexNode::Kind;
using Greed = RegexNode::Greed;

constexpr int kMostRepeats = 1000, kMostGroups = 50;
constexpr std::size_t kMostSets = 100;

class RegexParser : RegexReader {
 public:
  explicit RegexParser(const std::string& pattern) : RegexReader(pattern) {}

  Regex parse() {
    out_.root = choice();
    if (!at_end()) refuse("an unpaired ')'");
    return std::move(out_);
  }

 private:
  RegexNode choice() {
    std::vector<RegexNode> ways = {sequence()};
    while (take('|')) ways.push_back(sequence());
    if (ways.size() == 1) return std::move(ways[0]);
    return {.kind = Kind::choice, .children = std::move(ways)};
  }

  RegexNode sequence() {
    RegexNode out;
    char32_t previous = 0;  // of a literal whose case is ignored
    while (!at_end() && peek() != '|' && peek() != ')') {
      const char32_t literal = ignore_case_ ? peek() : 0;
      refuse_joined_letters(previous, literal);
      previous = literal;
      RegexNode atom = next_atom();
      if (inline_option_) {
        // Oniguruma takes all that follows, over the '|' too, for one group.
        if (!out.children.empty()) refuse("(?i) in the middle of a group");
        inline_option_ = false;
        continue;
      }
      out.children.push_back(repeated(std::move(atom)));
    }
    return out;
  }

  // Regardless of case "ss" also matches U+00DF and the like, one code point for two.
  void refuse_joined_letters(char32_t a, char32_t b) const {
    const auto small = [](char32_t c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; };
    const std::u32string both = {small(a), small(b)};
    for (const auto* joined : {U"ss", U"st", U"ff", U"fi", U"fl"})
      if (both == joined) refuse("letters regardless of case that one code point joins, such as 'ss'");
  }

  RegexNode repeated(RegexNode atom) {
    while (!at_end()) {
      int least = 0, most = kNoLimit;
      bool is_counted = false;
      if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else if (peek() == '{' && counts(least, most)) {
        is_counted = true;
      } else if (!take('*')) {
        break;
      }
      Greed greed = Greed::greedy;
      if (take('?'))
        greed = Greed::lazy;
      else if (!at_end() && peek() == '+') {
        if (is_counted) refuse("'+' after {..}");
        take('+');
        greed = Greed::possessive;
      }
      if (is_counted && greed == Greed::lazy && least == most) refuse("'?' after {n}");
      if (atom.can_be_empty()) refuse("a repetition of what can be empty");
      RegexNode outer{.kind = Kind::repeat, .least = least, .most = most, .greed = greed};
      outer.children.push_back(std::move(atom));
      atom = std::move(outer);
    }
    return atom;
  }

  // {2} {2,} {,3} {2,3}; anything else after '{' is the character itself.
  bool counts(int& least, int& most) {
    const std::size_t begin = place();
    take('{');
    const auto low = number();
    const bool has_comma = take(',');
    const auto high = has_comma ? number() : low;
    if ((!low && !high) || !take('}')) {
      go_to(begin);
      return false;
    }
    least = low.value_or(0);
    most = high.value_or(kNoLimit);
    if (least > kMostRepeats || (most != kNoLimit && most > kMostRepeats))
      refuse("more than 1000 repetitions");
    if (least > most) refuse("a repetition of more to fewer times");
    return true;
  }

  RegexNode next_atom() {
    switch (peek()) {
      case '(':
        return group();
      case '[':
        return set_node(bracket_class());
      case '.': {
        take('.');
        CodeBits bits;
        bits.add('\n', '\n');
        bits.invert();
        return set_node(std::move(bits));
      }
      case '^':
        take('^');
        return {.kind = Kind::line_begin};
      case '$':
        take('$');
        return {.kind = Kind::line_end};
      case '*':
      case '+':
      case '?':
        refuse("a repetition of nothing");
      default:
        break;
    }
    if (peek() == '\\') {
      const char32_t letter = peek(1);
      const auto assertion = [&](Kind kind, bool negated) -> RegexNode {
        take('\\');
        next();
        return {.kind = kind, .negated = negated};
      };
      if (letter == 'A') return assertion(Kind::text_begin, false);
      if (letter == 'z') return assertion(Kind::text_end, false);
      if (letter == 'b') return assertion(Kind::word_boundary, false);
      if (letter == 'B') return assertion(Kind::word_boundary, true);
    }
    return set_node(single());
  }

  RegexNode group() {
    if (++depth_ > kMostGroups) refuse("groups more than 50 deep");
    take('(');
    const bool outer_case = ignore_case_;
    RegexNode out;
    if (!take('?')) {
      out = closed_choice();
    } else if (take(':')) {
      out = closed_choice();
    } else if (take('=')) {
      out = {.kind = Kind::look, .children = {closed_choice()}};
    } else if (take('!')) {
      out = {.kind = Kind::look, .children = {closed_choice()}, .negated = true};
    } else if (take('>')) {
      out = {.kind = Kind::atomic, .children = {closed_choice()}};
    } else if (peek() == '<' && (peek(1) == '=' || peek(1) == '!')) {
      take('<');
      const bool negated = next() == '!';
      out = closed_choice();
      while (out.kind == Kind::sequence && out.children.size() == 1) out = RegexNode(out.children[0]);
      if (out.kind != Kind::set) refuse("a look-behind at more than one character");
      out.kind = Kind::look_behind;
      out.negated = negated;
    } else {
      out = options(outer_case);
    }
    --depth_;
    return out;
  }

  // (?i:..), (?-i:..) and (?i).
  RegexNode options(bool outer_case) {
    const bool off = take('-');
    if (!take('i')) refuse(cat("the group (?", off ? "-" : "", at_end() ? "" : to_utf8(peek())));
    ignore_case_ = !off;
    if (take(')')) {
      inline_option_ = true;
      return {};
    }
    if (!take(':')) refuse("options other than i");
    RegexNode out = closed_choice();
    ignore_case_ = outer_case;
    return out;
  }

  RegexNode closed_choice() {
    const bool outer_case = ignore_case_;
    RegexNode out = choice();
    if (!take(')')) refuse("an unpaired '('");
    ignore_case_ = outer_case;
    return out;
  }

  RegexNode set_node(CodeBits bits) {
    const auto found = std::find(out_.sets.begin(), out_.sets.end(), bits);
    const auto index = static_cast<int>(found - out_.sets.begin());
    if (found == out_.sets.end()) out_.sets.push_back(std::move(bits));
    if (out_.sets.size() > kMostSets) refuse("more than 100 different sets of characters");
    return {.kind = Kind::set, .set = index};
  }

  Regex out_;
  int depth_ = 0;
  bool inline_option_ = false;
};

}  // namespace

bool RegexNode::can_be_empty() const {
  const auto empty = [](const RegexNode& child) { return child.can_be_empty(); };
  switch (kind) {
    case Kind::sequence:
      return std::all_of(children.begin(), children.end(), empty);
    case Kind::choice:
      return std::any_of(children.begin(), children.end(), empty);
    case Kind::repeat:
      return least == 0 || children[0].can_be_empty();
    case Kind::atomic:
      return children[0].can_be_empty();
    case Kind::set:
      return false;
    case Kind::look:
    case Kind::look_behind:
    case Kind::text_begin:
    case Kind::text_end:
    case Kind::line_begin:
    case Kind::line_end:
    case Kind::word_boundary:
      return true;
  }
  return true;
}

Regex parse_regex(const std::string& pattern) { return RegexParser(pattern).parse(); }

}  // namespace tessera::tokenizer
