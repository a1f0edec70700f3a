#include <bit>
#include <cstring>

#include "tessera/tokenizer/split/matcher.hpp"
#include "tessera/tokenizer/split/patterns.hpp"
#include "tessera/tokenizer/unicode/categories.hpp"

namespace tessera::tokenizer {

namespace {

using trait::kLetter, trait::kLower, trait::kMark, trait::kNewline, trait::kNumber, trait::kSpace,
    trait::kSymbol, trait::kUpper;

constexpr std::size_t kNone = std::string_view::npos;

// What stands at a place of the text.
struct Here {
  std::uint8_t traits = 0;
  std::size_t next = 0;  // the place after it
};

// A text with the traits of its code points.
class Scan {
 public:
  Scan(std::string_view text, const std::uint8_t* traits) : text_(text), traits_(traits) {}

  std::size_t size() const { return text_.size(); }
  char byte(std::size_t at) const { return text_[at]; }

  Here at(std::size_t place) const {
    const auto byte = static_cast<unsigned char>(text_[place]);
    if (byte < 0x80) return {traits_[byte], place + 1};
    const auto [code, bytes] = code_point_at(text_, place);
    return {traits_[code], place + bytes};
  }

  // The end of the run of code points that have one of these traits.
  std::size_t run(std::size_t place, std::uint8_t mask) const {
    if (mask & kLetter) place = ascii_letters(place);
    return run_while<true>(place, mask);
  }
  // Of those that have none of them.
  std::size_t run_without(std::size_t place, std::uint8_t mask) const {
    return run_while<false>(place, mask);
  }

  // Of up to `most` numbers.
  std::size_t numbers(std::size_t place, int most) const {
    for (; most > 0 && place < text_.size(); --most) {
      const Here here = at(place);
      if ((here.traits & kNumber) == 0) break;
      place = here.next;
    }
    return place;
  }

  // The end of 's 't 're 've 'm 'll 'd at `place`; kNone if it is none of them. Regardless of case, 's is
  // also written with U+017F, the long s, whose capital is S.
  std::size_t contraction(std::size_t place, bool any_case) const {
    if (text_[place] != '\'') return kNone;
    const auto letter = [&](std::size_t back) -> char {
      if (place + back >= text_.size()) return 0;
      const char c = text_[place + back];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(1), second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return place + 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
      return place + 3;
    if (any_case && first == '\xC5' && second == '\xBF') return place + 3;
    return kNone;
  }

  // \s+(?!\S)|\s+ where white space stands.
  std::size_t spaces(std::size_t place) const {
    const std::size_t end = run(place, kSpace);
    if (end == text_.size()) return end;
    const std::size_t last = before(text_, end);
    return last > place ? last : end;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+ where white space stands: up to its last end of line, if it has one.
  std::size_t lines_or_spaces(std::size_t place) const {
    const std::size_t end = run(place, kSpace);
    for (std::size_t back = end; back > place; --back)
      if (text_[back - 1] == '\n' || text_[back - 1] == '\r') return back;
    if (end == text_.size()) return end;
    const std::size_t last = before(text_, end);
    return last > place ? last : end;
  }

 private:
  // The end of a run of a to z and A to Z, or a place in it: eight bytes at a time, without a branch for
  // each.
  std::size_t ascii_letters(std::size_t place) const {
    constexpr std::uint64_t kEach = 0x0101010101010101, kHigh = 0x80 * kEach;
    while (place + 8 <= text_.size()) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, text_.data() + place, 8);
      const std::uint64_t small = (bytes | 0x20 * kEach) & ~kHigh;
      const std::uint64_t at_least_a = small + (0x80 - 'a') * kEach, beyond_z = small + (0x7F - 'z') * kEach;
      const std::uint64_t others = ~(at_least_a & ~beyond_z & ~bytes) & kHigh;
      if (others != 0) return place + static_cast<std::size_t>(std::countr_zero(others)) / 8;
      place += 8;
    }
    return place;
  }

  template <bool wanted>
  std::size_t run_while(std::size_t place, std::uint8_t mask) const {
    const std::size_t size = text_.size();
    while (place < size) {
      const auto byte = static_cast<unsigned char>(text_[place]);
      if (byte < 0x80) {
        if (((traits_[byte] & mask) != 0) != wanted) break;
        ++place;
        continue;
      }
      const Here here = at(place);
      if (((here.traits & mask) != 0) != wanted) break;
      place = here.next;
    }
    return place;
  }

  std::string_view text_;
  const std::uint8_t* traits_;
};

// What the matchers below have in common.
class TraitMatcher : public Matcher {
 protected:
  const std::uint8_t* traits_ = code_point_traits();
};

// Of a pattern that matches everywhere: `end_of(scan, from)` of the Pattern is where the word at `from` ends.
template <typename Pattern>
class EverywhereMatcher : public TraitMatcher {
 public:
  Match find(std::string_view text, std::size_t from) const override {
    if (from >= text.size()) return {};
    return {from, pattern().end_of(Scan(text, traits_), from)};
  }
  std::size_t find_some(std::string_view text, std::size_t from, std::span<Match> out) const override {
    const Scan scan(text, traits_);
    std::size_t count = 0;
    for (; count < out.size() && from < text.size(); ++count) {
      const std::size_t end = pattern().end_of(scan, from);
      out[count] = {from, end};
      from = end;
    }
    return count;
  }

 private:
  const Pattern& pattern() const { return static_cast<const Pattern&>(*this); }
};

class Gpt2Matcher final : public EverywhereMatcher<Gpt2Matcher> {
  friend EverywhereMatcher<Gpt2Matcher>;

  static std::size_t end_of(const Scan& scan, std::size_t from) {
    if (const std::size_t end = scan.contraction(from, false); end != kNone) return end;
    Here here = scan.at(from);
    if (scan.byte(from) == ' ' && here.next < scan.size()) {
      const Here next = scan.at(here.next);
      if ((next.traits & kSpace) == 0) here = next;
    }
    if (here.traits & kLetter) return scan.run(here.next, kLetter);
    if (here.traits & kNumber) return scan.run(here.next, kNumber);
    if (here.traits & kSpace) return scan.spaces(from);
    return scan.run_without(here.next, kSpace | kLetter | kNumber);
  }
};

// Llama 3 and its kin.
class Llama3Matcher final : public EverywhereMatcher<Llama3Matcher> {
  friend EverywhereMatcher<Llama3Matcher>;

 public:
  // `word`: the traits of what words are made of.
  Llama3Matcher(int most_digits, std::uint8_t word) : most_digits_(most_digits), word_(word) {}

 private:
  std::size_t end_of(const Scan& scan, std::size_t from) const {
    const Here here = scan.at(from);
    if (here.traits & kLetter) return scan.run(here.next, word_);
    if (here.traits & kNumber) return scan.numbers(from, most_digits_);
    if (const std::size_t end = scan.contraction(from, true); end != kNone) return end;
    const Here next = here.next < scan.size() ? scan.at(here.next) : Here{kSpace, here.next};
    if ((here.traits & kNewline) == 0 && (next.traits & word_)) return scan.run(next.next, word_);
    if (here.traits & word_) return here.next;  // a mark that no word goes on from
    constexpr std::uint8_t kOthers = kSpace | kLetter | kNumber;
    if (scan.byte(from) == ' ' && (next.traits & (kOthers | word_)) == 0) return others(scan, next.next);
    if (here.traits & kSpace) return scan.lines_or_spaces(from);
    return others(scan, here.next);
  }

  std::size_t others(const Scan& scan, std::size_t from) const {
    return scan.run(scan.run_without(from, kSpace | kLetter | kNumber | word_), kNewline);
  }

  int most_digits_;
  std::uint8_t word_;
};

// GPT-4o and Tekken: words break where a capital follows a small letter.
class O200kMatcher final : public EverywhereMatcher<O200kMatcher> {
  friend EverywhereMatcher<O200kMatcher>;

 public:
  O200kMatcher(int most_digits, bool contractions) : most_digits_(most_digits), contractions_(contractions) {}

 private:
  std::size_t end_of(const Scan& scan, std::size_t from) const {
    const Here here = scan.at(from);
    const bool may_precede = (here.traits & (kNewline | kLetter | kNumber)) == 0;
    constexpr std::uint8_t kWord = kUpper | kLower;
    if (here.traits & kWord || (may_precede && here.next < scan.size())) {
      std::size_t end = may_precede ? small_word(scan, here.next) : kNone;
      if (end == kNone) end = small_word(scan, from);
      if (end == kNone && may_precede) end = capitals(scan, here.next);
      if (end == kNone) end = capitals(scan, from);
      if (end != kNone) return with_contraction(scan, end);
    }
    if (here.traits & kNumber) return scan.numbers(from, most_digits_);
    std::size_t others = from;
    if (scan.byte(from) == ' ' && here.next < scan.size()) others = here.next;
    constexpr std::uint8_t kNotOther = kSpace | kLetter | kNumber;
    std::size_t end = scan.run_without(others, kNotOther);
    if (end == others && here.traits & kSpace) return scan.lines_or_spaces(from);
    while (end < scan.size() && (scan.byte(end) == '\r' || scan.byte(end) == '\n' || scan.byte(end) == '/'))
      ++end;
    return end;
  }

  // [upper]*[lower]+ with what belongs to both: the longest run of `upper` goes back to its last that is also
  // `lower`.
  static std::size_t small_word(const Scan& scan, std::size_t from) {
    std::size_t place = from, after_lower = kNone;
    while (place < scan.size()) {
      const Here here = scan.at(place);
      if ((here.traits & kUpper) == 0) break;
      if (here.traits & kLower) after_lower = here.next;
      place = here.next;
    }
    if (place < scan.size() && scan.at(place).traits & kLower) return scan.run(place, kLower);
    return after_lower;
  }

  static std::size_t capitals(const Scan& scan, std::size_t from) {
    const std::size_t end = scan.run(from, kUpper);
    return end == from ? kNone : scan.run(end, kLower);
  }

  std::size_t with_contraction(const Scan& scan, std::size_t end) const {
    if (!contractions_ || end >= scan.size()) return end;
    const std::size_t longer = scan.contraction(end, true);
    return longer == kNone ? end : longer;
  }

  int most_digits_;
  bool contractions_;
};

class DeepSeekMatcher final : public TraitMatcher {
 public:
  Match find(std::string_view text, std::size_t from) const override {
    const Scan scan(text, traits_);
    while (from < text.size()) {
      if (const std::size_t end = end_of(scan, from); end != kNone) return {from, end};
      from = scan.at(from).next;
    }
    return {};
  }

 private:
  static bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  static std::size_t end_of(const Scan& scan, std::size_t from) {
    const char c = scan.byte(from);
    const Here here = scan.at(from);
    if (c > ' ' && c < 0x7F && here.traits & kSymbol) {
      std::size_t end = here.next;
      while (end < scan.size() && is_ascii_letter(scan.byte(end))) ++end;
      if (end > here.next) return end;
    }
    const Here next = here.next < scan.size() ? scan.at(here.next) : Here{0, here.next};
    const bool may_precede = (here.traits & (kNewline | kLetter | kSymbol)) == 0;
    if (may_precede && next.traits & (kLetter | kMark)) return scan.run(next.next, kLetter | kMark);
    if (here.traits & (kLetter | kMark)) return scan.run(here.next, kLetter | kMark);
    if (here.traits & kSymbol) return scan.run(scan.run(here.next, kSymbol), kNewline);
    if (c == ' ' && next.traits & kSymbol) return scan.run(scan.run(next.next, kSymbol), kNewline);
    if (here.traits & kSpace) return scan.lines_or_spaces(from);
    return kNone;
  }
};

}  // namespace

std::unique_ptr<Matcher> known_matcher(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return std::make_unique<Gpt2Matcher>();
  if (pattern == kLlama3Pattern) return std::make_unique<Llama3Matcher>(3, kLetter);
  if (pattern == kQwen2Pattern) return std::make_unique<Llama3Matcher>(1, kLetter);
  if (pattern == kQwen35Pattern) return std::make_unique<Llama3Matcher>(1, kLetter | kMark);
  if (pattern == kO200kPattern) return std::make_unique<O200kMatcher>(3, true);
  if (pattern == kTekkenPattern) return std::make_unique<O200kMatcher>(1, false);
  if (pattern == kDeepSeekPattern) return std::make_unique<DeepSeekMatcher>();
  return nullptr;
}

}  // namespace tessera::tokenizer
