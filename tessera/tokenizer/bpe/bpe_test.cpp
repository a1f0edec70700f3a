#include "tessera/tokenizer/bpe/bpe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/tokenizer/bpe/word_cache.hpp"

namespace tessera::tokenizer {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<Token>;

Tokens encoded(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  Tokens out;
  bpe.encode(word, scratch, out);
  return out;
}

BpeParts letters() {
  BpeParts out;
  out.tokens = {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}, {"abc", 5}, {"aa", 6}};
  out.merges = {{1, 2, 4}, {0, 1, 3}, {3, 2, 5}, {0, 0, 6}};
  return out;
}

TEST(Bpe, TheLowestRankMergesFirstAndTheLeftmostOfEqualOnes) {
  const Bpe bpe(letters());
  EXPECT_THAT(encoded(bpe, "abc"), ElementsAre(0, 4));
  EXPECT_THAT(encoded(bpe, "aaa"), ElementsAre(6, 0));
  EXPECT_THAT(encoded(bpe, "aab"), ElementsAre(0, 3));
  EXPECT_TRUE(encoded(bpe, "").empty());
}

TEST(Bpe, ALongWordMergesAsAShortOneDoes) {
  const Bpe bpe(letters());
  std::string word;
  Tokens expected = {2};
  for (int i = 0; i < 100; ++i) word += "cab";
  for (int i = 0; i < 99; ++i) expected.insert(expected.end(), {0, 4});
  expected.push_back(3);
  EXPECT_EQ(encoded(bpe, word), expected);
}

TEST(Bpe, AWordThatIsATokenIsItIfMergesAreIgnored) {
  BpeParts parts = letters();
  parts.ignore_merges = true;
  EXPECT_THAT(encoded(Bpe(parts), "abc"), ElementsAre(5));
}

TEST(Bpe, UnknownCharactersAreLeftOutOrUnknownOrBytes) {
  BpeParts parts = letters();
  parts.by_bytes = false;
  EXPECT_THAT(encoded(Bpe(parts),
                      "a\u00E9\u00E9"
                      "b"),
              ElementsAre(3));
  parts.unknown = 9;
  EXPECT_THAT(encoded(Bpe(parts),
                      "a\u00E9\u00E9"
                      "b"),
              ElementsAre(0, 9, 9, 1));
  parts.fuse_unknown = true;
  EXPECT_THAT(encoded(Bpe(parts),
                      "a\u00E9\u00E9"
                      "b"),
              ElementsAre(0, 9, 1));
  for (Token byte = 0; byte < 256; ++byte) parts.byte_tokens.push_back(1000 + byte);
  EXPECT_THAT(encoded(Bpe(parts), "\u00E9"), ElementsAre(1000 + 0xC3, 1000 + 0xA9));
}

TEST(Bpe, ATextIsCutBeforeAMarkOnlyIfNoMergeCrossesIt) {
  BpeParts parts;
  parts.by_bytes = false;
  parts.tokens = {{"\u2581", 0},
                  {"a", 1},
                  {"\u2581"
                   "a",
                   2},
                  {"\u2581\u2581", 3}};
  parts.merges = {{0, 1, 2}, {0, 0, 3}};
  EXPECT_TRUE(Bpe(parts).can_cut_before(0x2581));
  parts.tokens.emplace("a\u2581", 4);
  parts.merges.push_back({1, 0, 4});
  EXPECT_FALSE(Bpe(parts).can_cut_before(0x2581));
}

TEST(WordCache, GivesWhatTheModelGivesAgainAndAgain) {
  const Bpe bpe(letters());
  WordCache cache(bpe);
  std::string text;
  std::vector<std::string_view> words;
  std::vector<std::size_t> ends;
  for (std::size_t length = 1; length < 40; ++length) {
    for (std::size_t i = 0; i < length; ++i) text += "abcab"[(i * length) % 5];
    ends.push_back(text.size());
  }
  Tokens expected;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    words.push_back(std::string_view(text).substr(begin, end - begin));
    for (const Token token : encoded(bpe, words.back())) expected.push_back(token);
    begin = end;
  }
  for (int round = 0; round < 3; ++round) {
    Tokens out;
    cache.encode(words, out);
    EXPECT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace tessera::tokenizer
