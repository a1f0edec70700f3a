// Classes of code points as the pip package `tokenizers` has them, whose regular expressions know Unicode 16.
// The tables are written by scripts/make-unicode-tables.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

// General categories, by the names that \p{..} takes. Cn: not assigned.
enum class Category : std::uint8_t {
  Cn,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Co  // clang-format off: a name a line would fill a page
};    // clang-format on

struct CodeRange {
  char32_t first = 0, last = 0;
};

// The sets that components know by other names than a category's.
enum class CodeSet {
  space,        // \s, of every part of the package
  regex_word,   // \w of split patterns
  word,         // \w of added tokens and of the pre-tokenizer Whitespace
  numeric,      // what Digits splits off
  punctuation,  // what Punctuation splits off
};
std::span<const CodeRange> ranges_of(CodeSet set);

// What \p{name} matches: a category, its first letter, or a script; case, spaces, '-' and '_' do not count.
// Nothing if the name is not known.
std::optional<std::vector<CodeRange>> ranges_of_property(std::string_view name);

// Bits of a code point that hand-written matchers ask for.
namespace trait {
inline constexpr std::uint8_t kLetter = 1, kNumber = 2, kSpace = 4, kMark = 8;
inline constexpr std::uint8_t kUpper = 16;     // Lu Lt Lm Lo M: how a word of o200k begins
inline constexpr std::uint8_t kLower = 32;     // Ll Lm Lo M: how it goes on
inline constexpr std::uint8_t kSymbol = 64;    // P S
inline constexpr std::uint8_t kNewline = 128;  // \r \n
}  // namespace trait

// Indexed by code point; made when first asked for.
const std::uint8_t* code_point_traits();

}  // namespace tessera::tokenizer
