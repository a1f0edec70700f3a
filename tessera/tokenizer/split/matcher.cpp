#include "tessera/tokenizer/split/matcher.hpp"

#include "tessera/tokenizer/split/code_bits.hpp"
#include "tessera/tokenizer/split/regex_matcher.hpp"

namespace tessera::tokenizer {

namespace {

class TextMatcher final : public Matcher {
 public:
  explicit TextMatcher(std::string wanted) : wanted_(std::move(wanted)) {}
  Match find(std::string_view text, std::size_t from) const override {
    const std::size_t at = wanted_.empty() ? std::string_view::npos : text.find(wanted_, from);
    return {at, at + wanted_.size()};
  }

 private:
  std::string wanted_;
};

class SetMatcher final : public Matcher {
 public:
  explicit SetMatcher(CodeSet set) : bits_(ranges_of(set)) {}
  Match find(std::string_view text, std::size_t from) const override {
    while (from < text.size()) {
      const auto [code, bytes] = code_point_at(text, from);
      if (bits_.has(code)) return {from, from + bytes};
      from += bytes;
    }
    return {};
  }

 private:
  CodeBits bits_;
};

class WordMatcher final : public Matcher {
 public:
  WordMatcher() : word_(ranges_of(CodeSet::word)), space_(ranges_of(CodeSet::space)) {}
  Match find(std::string_view text, std::size_t from) const override {
    while (from < text.size() && kind_at(text, from).first == Kind::space) from += kind_at(text, from).second;
    if (from >= text.size()) return {};
    const auto [kind, bytes] = kind_at(text, from);
    std::size_t end = from + bytes;
    while (end < text.size() && kind_at(text, end).first == kind) end += kind_at(text, end).second;
    return {from, end};
  }

 private:
  enum class Kind { word, space, other };
  std::pair<Kind, std::size_t> kind_at(std::string_view text, std::size_t at) const {
    const auto [code, bytes] = code_point_at(text, at);
    return {word_.has(code) ? Kind::word : space_.has(code) ? Kind::space : Kind::other, bytes};
  }

  CodeBits word_, space_;
};

}  // namespace

std::size_t Matcher::find_some(std::string_view text, std::size_t from, std::span<Match> out) const {
  std::size_t count = 0;
  for (; count < out.size(); ++count) {
    out[count] = find(text, from);
    if (!out[count]) break;
    from = out[count].end;
  }
  return count;
}

std::unique_ptr<Matcher> make_matcher(const std::string& pattern) {
  if (auto known = known_matcher(pattern)) return known;
  return regex_matcher(pattern);
}

std::unique_ptr<Matcher> text_matcher(std::string text) {
  return std::make_unique<TextMatcher>(std::move(text));
}
std::unique_ptr<Matcher> digit_matcher() { return std::make_unique<SetMatcher>(CodeSet::numeric); }
std::unique_ptr<Matcher> punctuation_matcher() { return std::make_unique<SetMatcher>(CodeSet::punctuation); }
std::unique_ptr<Matcher> space_matcher() { return std::make_unique<SetMatcher>(CodeSet::space); }
std::unique_ptr<Matcher> word_matcher() { return std::make_unique<WordMatcher>(); }

}  // namespace tessera::tokenizer
