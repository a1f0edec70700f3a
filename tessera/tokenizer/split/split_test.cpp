#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/split/patterns.hpp"
#include "tessera/tokenizer/split/regex_matcher.hpp"
#include "tessera/tokenizer/split/splitter.hpp"

namespace tessera::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

struct Collected final : PieceSink {
  void take(Piece piece) override { words.emplace_back(piece.text); }
  Words words;
};

Words pieces(const Splitter& splitter, std::string_view text) {
  Collected sink;
  splitter.split({text, true}, sink);
  return sink.words;
}

Words pieces(std::unique_ptr<Matcher> matcher, std::string_view text,
             SplitBehavior behavior = SplitBehavior::isolated, bool inverted = false) {
  return pieces(Splitter(std::move(matcher), behavior, inverted), text);
}

TEST(Split, KnownPatternsSplitAsTheirTokenizersDo) {
  EXPECT_THAT(pieces(known_matcher(kGpt2Pattern), "I'll  go, 2024!\n\nOK'S"),
              ElementsAre("I", "'ll", " ", " go", ",", " 2024", "!", "\n", "\n", "OK", "'", "S"));
  EXPECT_THAT(pieces(known_matcher(kLlama3Pattern), "I'LL  go,\t2024!\n \nx '\u017F"),
              ElementsAre("I", "'LL", " ", " go", ",", "\t", "202", "4", "!\n", " \n", "x", " '", "\u017F"));
  EXPECT_THAT(pieces(known_matcher(kLlama3Pattern), "x'\u017F"), ElementsAre("x", "'\u017F"));
  EXPECT_THAT(pieces(known_matcher(kQwen2Pattern), "a12"), ElementsAre("a", "1", "2"));
  EXPECT_THAT(pieces(known_matcher(kO200kPattern), "HTTPServer isn'T //\n"),
              ElementsAre("HTTPServer", " isn'T", " //\n"));
  EXPECT_THAT(pieces(known_matcher(kTekkenPattern), "fooBar don't"), ElementsAre("foo", "Bar", " don", "'t"));
  EXPECT_THAT(pieces(known_matcher(kDeepSeekPattern), "a_b \x01\x02 c;\n"),
              ElementsAre("a", "_b", " ", "\x01\x02", " c", ";\n"));
}

// The hand-written matchers and the interpreter are two readings of one pattern.
TEST(Split, HandWrittenMatchersAgreeWithTheInterpreter) {
  const std::vector<std::string> alphabet = {"a",      "B",      "\u00E9", "\u01C5", "\u0301", "\u6F22",
                                             "\u02B0", "1",      "\u00BD", " ",      "\n",     "\r",
                                             "\t",     "\u3000", "'",      "s",      "\u017F", "ll",
                                             "/",      "!",      "_",      "\x01",   "\u20AC", "\u0378"};
  std::uint64_t state = 1;
  const auto draw = [&](std::size_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  for (const char* pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kQwen35Pattern, kO200kPattern,
                              kTekkenPattern, kDeepSeekPattern}) {
    const Splitter known(known_matcher(pattern), SplitBehavior::isolated, false);
    const Splitter interpreted(regex_matcher(pattern), SplitBehavior::isolated, false);
    for (int round = 0; round < 2000; ++round) {
      std::string text;
      for (std::size_t i = draw(14); i-- > 0;) text += alphabet[draw(alphabet.size())];
      EXPECT_EQ(pieces(known, text), pieces(interpreted, text)) << pattern << "\n" << text;
    }
  }
}

TEST(Split, BehaviorsSayWhereMatchesGo) {
  const auto split = [](SplitBehavior behavior, bool inverted = false) {
    return pieces(text_matcher("-"), "a-b--c", behavior, inverted);
  };
  EXPECT_THAT(split(SplitBehavior::isolated), ElementsAre("a", "-", "b", "-", "-", "c"));
  EXPECT_THAT(split(SplitBehavior::removed), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split(SplitBehavior::removed, true), ElementsAre("-", "-", "-"));
  EXPECT_THAT(split(SplitBehavior::merged_with_previous), ElementsAre("a-", "b-", "-", "c"));
  EXPECT_THAT(split(SplitBehavior::merged_with_next), ElementsAre("a", "-b", "-", "-c"));
  EXPECT_THAT(split(SplitBehavior::contiguous), ElementsAre("a", "-", "b", "--", "c"));
}

TEST(Regex, KnowsWhatSplitPatternsUse) {
  const std::vector<std::tuple<std::string, std::string, Words>> cases = {
      {"a{2,3}", "aaaaa", {"aaa", "aa"}},
      {"a{2,3}?", "aaaaa", {"aa", "aa"}},
      {"a+?b", "aabab", {"aab", "ab"}},
      {"a++a|b", "aab", {"b"}},
      {"(?>a|ab)c|b", "abcac", {"b", "ac"}},
      {"(?:ab|c)+", "abcabx", {"abcab"}},
      {"[^a-c\\s]+", "abxy zc", {"xy", "z"}},
      {"[a[0-9]]+", "xa1b2", {"a1", "2"}},
      {"\\bfoo\\b", "foo food", {"foo"}},
      {"(?<=x)y|(?<!x)z", "xyxzz", {"y", "z"}},
      {"(?i)KS", "ks\u212A\u017FKs", {"ks", "\u212A\u017F", "Ks"}},
      {"^a|b$", "a\naab\nb", {"a", "a", "b", "b"}},
      {"\\u0041\\x42\\x{43}", "ABCAB", {"ABC"}},
      {"\\p{Han}+|\\P{L}", "\u6F22\u5B57a1", {"\u6F22\u5B57", "1"}},
  };
  for (const auto& [pattern, text, expected] : cases) {
    Words found;
    const auto matcher = regex_matcher(pattern);
    std::size_t at = 0;
    while (const Match match = matcher->find(text, at)) {
      found.push_back(text.substr(match.begin, match.end - match.begin));
      at = match.end;
    }
    EXPECT_EQ(found, expected) << pattern;
  }
}

TEST(Regex, RefusesByNameWhatItDoesNotKnow) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"(a)\\1", "\\1"},
      {"\\p{Klingon}", "\\p{Klingon}"},
      {"a*", "empty text"},
      {"[a&&b]", "&&"},
      {"[[:alpha:]]", "[:alpha:]"},
      {"(?i:ss)", "'ss'"},
      {"(?i:\u00E9)", "beyond ASCII"},
      {"(?<name>a)", "(?"},
      {"(", "unpaired '('"},
      {"a)", "unpaired ')'"},
      {"[a", "unpaired '['"},
      {"(?<=ab)c", "look-behind"},
      {"(?:a*)*b", "can be empty"},
      {"a{1,3}+", "'+' after"},
  };
  for (const auto& [pattern, named] : cases) {
    try {
      regex_matcher(pattern);
      ADD_FAILURE() << pattern << " is taken";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(named)) << pattern;
    }
  }
}

TEST(Regex, EndsAPatternThatTriesTooManyWays) {
  const auto matcher = regex_matcher("(?:a|a|aa)+b");
  EXPECT_THROW(matcher->find(std::string(60, 'a'), 0), UserError);
}

}  // namespace
}  // namespace tessera::tokenizer
