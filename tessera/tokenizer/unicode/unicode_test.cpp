#include <gtest/gtest.h>

#include "tessera/tokenizer/unicode/categories.hpp"
#include "tessera/tokenizer/unicode/normalize.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {
namespace {

TEST(Utf8, CodePointsReadBackAsTheyWereWritten) {
  for (const char32_t code : {0x00, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    const std::string text = to_utf8(code);
    EXPECT_EQ(code_point_at(text, 0).value, code);
    EXPECT_EQ(code_point_at(text, 0).bytes, text.size());
    EXPECT_EQ(valid_prefix(text), text.size());
    EXPECT_EQ(before(text, text.size()), 0u);
  }
}

// What Python's bytes.decode(errors="replace") makes of them.
TEST(Utf8, EachBrokenSequenceBecomesOneReplacementCharacter) {
  const std::string mark = to_utf8(kReplacement);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\xFFz", "a" + mark + "z"},
      {"\xE2\x82", mark},
      {"\xE2\x82z", mark + "z"},
      {"\xC0\xAF", mark + mark},
      {"\xED\xA0\x80", mark + mark + mark},
      {"\xF0\x80\x80\x41", mark + mark + mark + "A"},
      {"\xF4\x90\x80\x80", mark + mark + mark + mark},
      {"\xE2\x82\xAC\x80", "\u20AC" + mark},
      {"plain", "plain"},
  };
  for (const auto& [given, expected] : cases) EXPECT_EQ(repaired(given), expected);
}

TEST(Utf8, OnlyABeginningThatCanGoOnIsUnfinished) {
  EXPECT_EQ(unfinished_suffix("a\xE2\x82"), 2u);
  EXPECT_EQ(unfinished_suffix("a\xF0"), 1u);
  EXPECT_EQ(unfinished_suffix("a\xED\xA0"), 0u);
  EXPECT_EQ(unfinished_suffix("\u20AC"), 0u);
  EXPECT_EQ(unfinished_suffix("\x82"), 0u);
}

TEST(Categories, PropertiesAreKnownByCategoryItsLetterAndScript) {
  EXPECT_TRUE(ranges_of_property("Lu").has_value());
  EXPECT_TRUE(ranges_of_property("l").has_value());
  EXPECT_TRUE(ranges_of_property("Han").has_value());
  EXPECT_FALSE(ranges_of_property("Klingon").has_value());
  EXPECT_EQ((*ranges_of_property("Zl"))[0].first, 0x2028u);
}

// U+10D4A is a letter since Unicode 16, U+1C89 a capital.
TEST(Categories, TheTablesAreThoseOfUnicode16) {
  EXPECT_TRUE(code_point_traits()[0x10D4A] & trait::kLetter);
  EXPECT_TRUE(code_point_traits()[0x1C89] & trait::kUpper);
  EXPECT_TRUE(code_point_traits()[0x3000] & trait::kSpace);
  EXPECT_FALSE(code_point_traits()[0x200B] & trait::kSpace);
}

TEST(Normalize, FormsOfTheStandardsOwnExamples) {
  struct Case {
    std::string text, nfc, nfd, nfkc, nfkd;
  };
  const std::vector<Case> cases = {
      {"plain", "plain", "plain", "plain", "plain"},
      {"e\u0301", "\u00E9", "e\u0301", "\u00E9", "e\u0301"},
      {"\u1E9B\u0323", "\u1E9B\u0323", "\u017F\u0323\u0307", "\u1E69", "s\u0323\u0307"},
      {"\uFB01", "\uFB01", "\uFB01", "fi", "fi"},
      {"\u212B", "\u00C5", "A\u030A", "\u00C5", "A\u030A"},
      {"\uAC01", "\uAC01", "\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8"},
      {"\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8"},
      {"a\u0315\u0300 b", "\u00E0\u0315 b", "a\u0300\u0315 b", "\u00E0\u0315 b", "a\u0300\u0315 b"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(normalized(each.text, NormalForm::nfc), each.nfc) << each.text;
    EXPECT_EQ(normalized(each.text, NormalForm::nfd), each.nfd) << each.text;
    EXPECT_EQ(normalized(each.text, NormalForm::nfkc), each.nfkc) << each.text;
    EXPECT_EQ(normalized(each.text, NormalForm::nfkd), each.nfkd) << each.text;
  }
}

}  // namespace
}  // namespace tessera::tokenizer
