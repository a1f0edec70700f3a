#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::tokenizer {
namespace {

// A model that the library has trained.
std::string trained_model() {
  const std::string folder = ::testing::TempDir();
  const std::string text = folder + "sentencepiece_test.txt", prefix = folder + "sentencepiece_test";
  std::ofstream out(text);
  for (int i = 0; i < 200; ++i)
    out << "the cat sat on the mat and the dog sat on the log number " << i << "\n";
  out.close();
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      cat("--input=", text, " --model_prefix=", prefix,
          " --vocab_size=330 --model_type=bpe --byte_fallback=true --minloglevel=9"));
  EXPECT_TRUE(status.ok()) << status.ToString();
  return prefix + ".model";
}

TEST(SentencePiece, AModelEncodesAndDecodesTokenByTokenToo) {
  const auto tokenizer = open_tokenizer(trained_model());
  EXPECT_EQ(tokenizer->vocabulary_size(), 330);
  EXPECT_EQ(tokenizer->token_of("<s>"), 1);
  EXPECT_EQ(tokenizer->prefix(), std::vector<Token>{1});
  for (const std::string text : {"the cat sat", "a\u20ACb \u6F22", "1 2 3 x y", "", "the \u20AC"}) {
    std::vector<Token> tokens;
    tokenizer->encoder()->encode(text, tokens);
    EXPECT_EQ(tokenizer->decode(tokens, false), text);
    const auto decoder = tokenizer->decoder();
    std::string streamed;
    for (const Token token : tokens) streamed += decoder->push(token);
    EXPECT_EQ(streamed + decoder->finish(), text);
  }
}

TEST(SentencePiece, WhatIsNoModelIsRefused) {
  const std::string path = ::testing::TempDir() + "no.model";
  std::ofstream(path) << "not a model";
  EXPECT_THROW(open_tokenizer(path), UserError);
}

}  // namespace
}  // namespace tessera::tokenizer
