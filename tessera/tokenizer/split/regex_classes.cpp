#include "tessera/tokenizer/split/regex_classes.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/shortened.hpp"

namespace tessera::tokenizer {

namespace {

constexpr char32_t kLongS = 0x17F, kKelvin = 0x212A;  // U+017F is a small s, U+212A a capital K
constexpr int kMostNumber = 100'000, kMostClasses = 20;

CodeBits bits_of(CodeSet set, bool negated) {
  CodeBits out(ranges_of(set));
  if (negated) out.invert();
  return out;
}

CodeBits bits_of(char32_t code) {
  CodeBits out;
  out.add(code, code);
  return out;
}

constexpr std::size_t kMostPattern = 10'000;  // each of its characters becomes a set of code points

}  // namespace

RegexReader::RegexReader(const std::string& pattern) : pattern_(pattern) {
  if (pattern.size() > kMostPattern) refuse(cat("more than ", kMostPattern, " bytes"));
  if (valid_prefix(pattern) != pattern.size()) refuse("bytes that are no UTF-8");
  for (std::size_t at = 0; at < pattern.size();) {
    const auto [code, bytes] = code_point_at(pattern, at);
    codes_.push_back(code);
    at += bytes;
  }
}

void RegexReader::refuse(const std::string& what) const {
  throw UserError(cat("the split pattern '", shortened(pattern_, 500), "' has ", shortened(what, 500),
                      ", which Tessera does not know"));
}

char32_t RegexReader::next() {
  if (at_end()) refuse("an end too early");
  return codes_[at_++];
}

bool RegexReader::take(char32_t code) {
  if (at_end() || codes_[at_] != code) return false;
  ++at_;
  return true;
}

std::optional<int> RegexReader::number() {
  std::optional<int> out;
  while (!at_end() && peek() >= '0' && peek() <= '9') {
    out = out.value_or(0) * 10 + static_cast<int>(next() - '0');
    if (*out > kMostNumber) refuse("a number of more than five digits");
  }
  return out;
}

char32_t RegexReader::hexadecimal(int least, int most) {
  char32_t out = 0;
  int digits = 0;
  for (; digits < most; ++digits) {
    const char32_t c = peek();
    if (c >= '0' && c <= '9')
      out = out * 16 + (c - '0');
    else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
      out = out * 16 + ((c | 0x20) - 'a' + 10);
    else
      break;
    next();
  }
  if (digits < least || out >= kNumCodePoints) refuse("a code point in hexadecimal that is none");
  return out;
}

CodeBits RegexReader::property(bool negated) {
  if (!take('{')) refuse("\\p without {..}");
  if (take('^')) negated = !negated;
  std::string name;
  while (!at_end() && peek() != '}') append_utf8(next(), name);
  if (!take('}')) refuse("\\p{ without }");
  const auto ranges = ranges_of_property(name);
  if (!ranges) refuse(cat("the property \\p{", name, "}"));
  const bool depends_on_case = name.size() != 1;
  if (ignore_case_ && depends_on_case) refuse(cat("\\p{", name, "} regardless of case"));
  CodeBits out(*ranges);
  if (negated) out.invert();
  return out;
}

RegexReader::Item RegexReader::escaped() {
  take('\\');
  const char32_t c = next();
  const auto literal = [](char32_t code) { return Item{bits_of(code), code}; };
  switch (c) {
    case 's':
      return {bits_of(CodeSet::space, false), {}};
    case 'S':
      return {bits_of(CodeSet::space, true), {}};
    case 'w':
      return {bits_of(CodeSet::regex_word, false), {}};
    case 'W':
      return {bits_of(CodeSet::regex_word, true), {}};
    case 'd':
    case 'D': {
      CodeBits bits(*ranges_of_property("Nd"));
      if (c == 'D') bits.invert();
      return {std::move(bits), {}};
    }
    case 'p':
      return {property(false), {}};
    case 'P':
      return {property(true), {}};
    case 'n':
      return literal('\n');
    case 'r':
      return literal('\r');
    case 't':
      return literal('\t');
    case 'f':
      return literal('\f');
    case 'v':
      return literal('\v');
    case 'a':
      return literal('\a');
    case 'e':
      return literal(0x1B);
    case 'u':
      return literal(hexadecimal(4, 4));
    case 'x': {
      if (!take('{')) {
        const char32_t code = hexadecimal(1, 2);
        if (code >= 0x80) refuse("a byte that is not ASCII");
        return literal(code);
      }
      const char32_t code = hexadecimal(1, 8);
      if (!take('}')) refuse("\\x{ without }");
      return literal(code);
    }
    default:
      break;
  }
  const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  if (is_plain) refuse(cat("\\", to_utf8(c)));
  return literal(c);
}

void RegexReader::add_other_case(CodeBits& bits) const {
  for (char32_t code = 'a'; code <= 'z'; ++code) {
    const char32_t capital = code - 'a' + 'A';
    const char32_t third = code == 's' ? kLongS : code == 'k' ? kKelvin : code;
    if (!bits.has(code) && !bits.has(capital) && !bits.has(third)) continue;
    for (const char32_t each : {code, capital, third}) bits.add(each, each);
  }
}

CodeBits RegexReader::single() {
  Item item = peek() == '\\' ? escaped() : Item{bits_of(peek()), next()};
  if (ignore_case_) {
    if (item.code && *item.code >= 0x80) refuse("a character beyond ASCII regardless of case");
    if (item.code) add_other_case(item.bits);
  }
  return std::move(item.bits);
}

CodeBits RegexReader::bracket_class() {
  if (++depth_ > kMostClasses) refuse("classes more than 20 deep");
  take('[');
  const bool negated = take('^');
  CodeBits out;
  bool is_first = true;
  while (is_first || peek() != ']') {
    if (at_end()) refuse("an unpaired '['");
    if (is_first && peek() == ']') refuse("an empty class");
    is_first = false;
    if (peek() == '[' && peek(1) == ':') refuse("a class such as [:alpha:]");
    if (peek() == '&' && peek(1) == '&') refuse("&& in a class");
    if (peek() == '[') {
      out.add(bracket_class());
      continue;
    }
    const char32_t raw = peek();
    Item item = raw == '\\' ? escaped() : Item{bits_of(raw), next()};
    if (item.code && peek() == '-' && peek(1) != ']' && peek(1) != 0) {
      take('-');
      if (peek() == '[') refuse("a range up to a class");
      const char32_t end = peek();
      const Item last = end == '\\' ? escaped() : Item{bits_of(end), next()};
      if (!last.code || *last.code < *item.code) refuse("a range that is none");
      if (ignore_case_ && *last.code >= 0x80) refuse("characters beyond ASCII regardless of case");
      out.add(*item.code, *last.code);
      continue;
    }
    if (ignore_case_ && item.code && *item.code >= 0x80) refuse("characters beyond ASCII regardless of case");
    out.add(item.bits);
  }
  take(']');
  --depth_;
  if (ignore_case_) add_other_case(out);
  if (negated) out.invert();
  return out;
}

}  // namespace tessera::tokenizer
