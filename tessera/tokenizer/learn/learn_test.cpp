#include "tessera/tokenizer/learn/learn.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/json_tokenizer.hpp"
#include "tessera/tokenizer/learn/learn_merges.hpp"

namespace tessera::tokenizer {
namespace {

class Learn : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = ::testing::TempDir() + "learn_test.txt";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
};

TEST_F(Learn, TheMostFrequentPairMergesFirstAndTheLowerTokensOfEqualOnes) {
  std::vector<Token> bytes(256);
  for (Token i = 0; i < 256; ++i) bytes[static_cast<std::size_t>(i)] = i;
  const std::vector<WordCount> words = {{"abab", 2}, {"bc", 4}, {"xy", 3}};
  const auto merges = learn_merges(words, bytes, 256, {.num_merges = 10, .least_count = 2});
  EXPECT_EQ(merges,
            (std::vector<MergePair>{{'a', 'b', 256}, {'b', 'c', 257}, {'x', 'y', 258}, {256, 256, 259}}));
}

TEST_F(Learn, OverlappingPairsAreCountedAsTheyMerge) {
  std::vector<Token> bytes(256);
  for (Token i = 0; i < 256; ++i) bytes[static_cast<std::size_t>(i)] = i;
  const auto merges =
      learn_merges(std::vector<WordCount>{{"aaaaa", 3}}, bytes, 256, {.num_merges = 3, .least_count = 1});
  EXPECT_EQ(merges, (std::vector<MergePair>{{'a', 'a', 256}, {256, 'a', 257}, {256, 257, 258}}));
}

TEST_F(Learn, WhatIsLearnedReadsTheTextBackWhateverTheThreads) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the cat sat on the mat, " + std::to_string(i) + " times\n";
  const std::string path = file(text);
  const auto one = learn_tokenizer({.paths = {path}, .vocabulary_size = 290});
  const auto three = learn_tokenizer({.paths = {path}, .vocabulary_size = 290, .threads = 3});
  EXPECT_EQ(one.json, three.json);
  EXPECT_EQ(one.vocabulary_size, 290);
  const auto tokenizer = parse_tokenizer_json(one.json, "learned");
  std::vector<Token> tokens;
  tokenizer->encoder()->encode(text, tokens);
  EXPECT_LT(tokens.size() * 2, text.size());
  EXPECT_EQ(tokenizer->decode(tokens, false), text);
  EXPECT_EQ(tokenizer->token_of("<|endoftext|>"), 0);
}

TEST_F(Learn, OptionsThatMakeNoSenseAreRefused) {
  const std::string path = file("text");
  EXPECT_THROW(learn_tokenizer({.paths = {path}, .vocabulary_size = 100}), UserError);
  EXPECT_THROW(learn_tokenizer({.paths = {}}), UserError);
  EXPECT_THROW(learn_tokenizer({.paths = {path}, .split = "other"}), UserError);
  EXPECT_THROW(learn_tokenizer({.paths = {path}, .special = {"<a>", "<a>"}}), UserError);
  EXPECT_THROW(learn_tokenizer({.paths = {path + ".absent"}}), UserError);
}

}  // namespace
}  // namespace tessera::tokenizer
