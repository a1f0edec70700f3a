#include "tessera/tokenizer/unicode/categories.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace tessera::tokenizer {

namespace {

struct CategoryRange {
  char32_t first, last;
  Category category;
};
constexpr CategoryRange kCategories[] = {
#include "tessera/tokenizer/unicode/categories.inc"
};
struct ScriptRange {
  std::string_view script;
  char32_t first, last;
};
constexpr ScriptRange kScripts[] = {
#include "tessera/tokenizer/unicode/scripts.inc"
};
constexpr CodeRange kSpaces[] = {
#include "tessera/tokenizer/unicode/space.inc"
};
constexpr CodeRange kRegexWord[] = {
#include "tessera/tokenizer/unicode/regex_word.inc"
};
constexpr CodeRange kWord[] = {
#include "tessera/tokenizer/unicode/word.inc"
};
constexpr CodeRange kNumeric[] = {
#include "tessera/tokenizer/unicode/numeric.inc"
};
constexpr CodeRange kPunctuation[] = {
#include "tessera/tokenizer/unicode/punctuation.inc"
};

// By their order in Category.
constexpr std::array<std::string_view, 29> kCategoryNames = {
    "cn", "lu", "ll", "lt", "lm", "lo", "mn", "mc", "me", "nd", "nl", "no", "pc", "pd", "ps",
    "pe", "pi", "pf", "po", "sm", "sc", "sk", "so", "zs", "zl", "zp", "cc", "cf", "co"};

std::string_view name_of(Category category) { return kCategoryNames[static_cast<std::size_t>(category)]; }

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '-' && c != '_')
      out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  return out;
}

std::uint8_t traits_of(Category category) {
  using enum Category;
  const char kind = name_of(category)[0];
  std::uint8_t out = 0;
  if (kind == 'l') out |= trait::kLetter;
  if (kind == 'n') out |= trait::kNumber;
  if (kind == 'm') out |= trait::kMark | trait::kUpper | trait::kLower;
  if (kind == 'p' || kind == 's') out |= trait::kSymbol;
  if (category == Lu || category == Lt || category == Lm || category == Lo) out |= trait::kUpper;
  if (category == Ll || category == Lm || category == Lo) out |= trait::kLower;
  return out;
}

std::vector<std::uint8_t> made_traits() {
  std::vector<std::uint8_t> out(kNumCodePoints);
  const auto add = [&](const CodeRange& range, std::uint8_t bits) {
    for (char32_t code = range.first; code <= range.last; ++code) out[code] |= bits;
  };
  for (const auto& [first, last, category] : kCategories) add({first, last}, traits_of(category));
  for (const CodeRange& range : kSpaces) add(range, trait::kSpace);
  out['\r'] |= trait::kNewline;
  out['\n'] |= trait::kNewline;
  return out;
}

std::vector<CodeRange> unassigned() {
  std::vector<CodeRange> out;
  char32_t next = 0;
  for (const auto& [first, last, category] : kCategories) {
    if (first > next) out.push_back({next, first - 1});
    next = last + 1;
  }
  if (next < kNumCodePoints) out.push_back({next, kNumCodePoints - 1});
  return out;
}

}  // namespace

std::span<const CodeRange> ranges_of(CodeSet set) {
  switch (set) {
    case CodeSet::space:
      return kSpaces;
    case CodeSet::regex_word:
      return kRegexWord;
    case CodeSet::word:
      return kWord;
    case CodeSet::numeric:
      return kNumeric;
    case CodeSet::punctuation:
      return kPunctuation;
  }
  return {};
}

std::optional<std::vector<CodeRange>> ranges_of_property(std::string_view given) {
  const std::string name = plain(given);
  std::vector<CodeRange> out;
  for (const auto& [first, last, category] : kCategories)
    if (name_of(category) == name || (name.size() == 1 && name_of(category).starts_with(name)))
      out.push_back({first, last});
  for (const auto& [script, first, last] : kScripts)
    if (script == name) out.push_back({first, last});
  if (name == "cn" || name == "c")
    for (const CodeRange& range : unassigned()) out.push_back(range);
  if (out.empty()) return std::nullopt;
  return out;
}

const std::uint8_t* code_point_traits() {
  static const std::vector<std::uint8_t> kTraits = made_traits();
  return kTraits.data();
}

}  // namespace tessera::tokenizer
