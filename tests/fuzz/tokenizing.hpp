// Checks that must hold of every tokenizer that is made of untrusted bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/tokenizer/tokenizer.hpp"
#include "tests/fuzz/limits.hpp"

namespace tessera::fuzz {

// Encodes a text: its tokens lie in the vocabulary and decode to one text, whole and token by token.
inline void encode(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  std::vector<tokenizer::Token> tokens;
  tokenizer.encoder()->encode(text, tokens);
  const auto decoder = tokenizer.decoder();
  std::string streamed;
  for (const tokenizer::Token token : tokens) {
    expect(token >= 0 && token < tokenizer.vocabulary_size());
    streamed += decoder->push(token);
  }
  streamed += decoder->finish();
  expect(streamed == tokenizer.decode(tokens, false));
}

}  // namespace tessera::fuzz
