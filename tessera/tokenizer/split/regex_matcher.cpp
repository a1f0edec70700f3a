#include "tessera/tokenizer/split/regex_matcher.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/shortened.hpp"
#include "tessera/tokenizer/split/regex_program.hpp"

namespace tessera::tokenizer {

namespace {

constexpr std::size_t kNowhere = std::string_view::npos;
constexpr std::int64_t kMostSteps = 1'000'000;

// Where to go on when the present way fails: at instruction `next`, at `at`, and after that at any earlier
// code point down to `least` (a greedy run gives back), or with further ones (a lazy run takes more).
struct Choice {
  int next = 0;
  std::size_t at = 0, least = 0;
  int run = -1;  // the instruction of a lazy run
  int taken = 0;
};

class RegexMatcher final : public Matcher {
 public:
  RegexMatcher(std::string pattern, const Regex& regex)
      : pattern_(std::move(pattern)),
        program_(compile_regex(regex)),
        sets_(regex.sets),
        word_(ranges_of(CodeSet::regex_word)) {}

  Match find(std::string_view text, std::size_t from) const override {
    std::vector<Choice> choices;
    while (from < text.size()) {
      const auto [code, bytes] = code_point_at(text, from);
      if (program_.first.has(code)) {
        std::int64_t steps = kMostSteps;
        const std::size_t end = end_of(text, 0, from, steps, choices);
        if (end != kNowhere) return {from, end};
      }
      from += bytes;
    }
    return {};
  }

 private:
  // The end of the match from instruction `pc` to its `done`; the choices of an outer one stay below.
  std::size_t end_of(std::string_view text, int pc, std::size_t at, std::int64_t& steps,
                     std::vector<Choice>& choices) const {
    const std::size_t base = choices.size();
    while (true) {
      if (--steps < 0)
        throw UserError(cat("the split pattern '", shortened(pattern_, 500),
                            "' takes too long on a text: it can match in more than ", kMostSteps,
                            " ways at one place"));
      const Instruction& now = program_.instructions[static_cast<std::size_t>(pc)];
      bool holds = true;
      switch (now.op) {
        case RegexOp::done:
          choices.resize(base);
          return at;
        case RegexOp::jump:
          pc = now.to;
          continue;
        case RegexOp::fork:
          choices.push_back({.next = now.other, .at = at, .least = at});
          pc = now.to;
          continue;
        case RegexOp::set: {
          holds = at < text.size();
          if (!holds) break;
          const auto [code, bytes] = code_point_at(text, at);
          holds = sets_[static_cast<std::size_t>(now.set)].has(code);
          at += bytes;
          break;
        }
        case RegexOp::run:
          holds = run(text, now, pc, at, steps, choices);
          break;
        case RegexOp::atomic:
        case RegexOp::look: {
          const std::size_t end = end_of(text, pc + 1, at, steps, choices);
          holds = (end != kNowhere) != now.negated;
          if (holds && now.op == RegexOp::atomic) at = end;
          if (holds) {
            pc = now.to;
            continue;
          }
          break;
        }
        case RegexOp::assertion:
          holds = asserted(text, now, at);
          break;
      }
      if (holds) {
        ++pc;
        continue;
      }
      if (!take_choice(text, pc, at, choices, base)) return kNowhere;
    }
  }

  // The last way that is left.
  bool take_choice(std::string_view text, int& pc, std::size_t& at, std::vector<Choice>& choices,
                   std::size_t base) const {
    while (choices.size() > base) {
      Choice& last = choices.back();
      pc = last.next;
      at = last.at;
      if (last.run >= 0) {
        if (more(text, last)) return true;
        choices.pop_back();
        continue;
      }
      if (last.at > last.least)
        last.at = before(text, last.at);
      else
        choices.pop_back();
      return true;
    }
    return false;
  }

  // After `at` is gone on from, a lazy run has the next one in hand.
  bool more(std::string_view text, Choice& lazy) const {
    if (lazy.taken < 0) return false;
    const Instruction& run = program_.instructions[static_cast<std::size_t>(lazy.run)];
    const bool goes_on = lazy.taken < run.most && lazy.at < text.size() &&
                         sets_[static_cast<std::size_t>(run.set)].has(code_point_at(text, lazy.at).value);
    if (goes_on) {
      lazy.at += code_point_at(text, lazy.at).bytes;
      ++lazy.taken;
    } else {
      lazy.taken = -1;
    }
    return true;
  }

  bool run(std::string_view text, const Instruction& now, int pc, std::size_t& at, std::int64_t& steps,
           std::vector<Choice>& choices) const {
    const CodeBits& set = sets_[static_cast<std::size_t>(now.set)];
    const bool is_lazy = now.greed == RegexNode::Greed::lazy;
    std::size_t least = at;
    int taken = 0;
    while (taken < (is_lazy ? now.least : now.most) && at < text.size()) {
      const auto [code, bytes] = code_point_at(text, at);
      if (!set.has(code)) break;
      at += bytes;
      if (++taken == now.least) least = at;
      --steps;
    }
    if (taken < now.least) return false;
    if (is_lazy) {
      Choice lazy{.next = pc + 1, .at = at, .run = pc, .taken = taken};
      if (more(text, lazy) && lazy.taken >= 0) choices.push_back(lazy);
    } else if (now.greed == RegexNode::Greed::greedy && at > least) {
      choices.push_back({.next = pc + 1, .at = before(text, at), .least = least});
    }
    return true;
  }

  bool asserted(std::string_view text, const Instruction& now, std::size_t at) const {
    using Kind = RegexNode::Kind;
    const auto code_before = [&] { return code_point_at(text, before(text, at)).value; };
    const auto is_word_before = [&] { return at > 0 && word_.has(code_before()); };
    const auto is_word_here = [&] { return at < text.size() && word_.has(code_point_at(text, at).value); };
    bool holds = false;
    if (now.assertion == Kind::text_begin) holds = at == 0;
    if (now.assertion == Kind::text_end) holds = at == text.size();
    if (now.assertion == Kind::line_begin) holds = at == 0 || (text[at - 1] == '\n' && at < text.size());
    if (now.assertion == Kind::line_end) holds = at == text.size() || text[at] == '\n';
    if (now.assertion == Kind::word_boundary) holds = is_word_before() != is_word_here();
    if (now.assertion == Kind::look_behind)
      holds = at > 0 && sets_[static_cast<std::size_t>(now.set)].has(code_before());
    return holds != now.negated;
  }

  std::string pattern_;
  RegexProgram program_;
  std::vector<CodeBits> sets_;
  CodeBits word_;
};

}  // namespace

std::unique_ptr<Matcher> regex_matcher(const std::string& pattern) {
  const Regex regex = parse_regex(pattern);
  if (regex.root.can_be_empty())
    throw UserError(cat("the split pattern '", shortened(pattern, 500),
                        "' can match the empty text, which Tessera does not know"));
  return std::make_unique<RegexMatcher>(pattern, regex);
}

}  // namespace tessera::tokenizer
