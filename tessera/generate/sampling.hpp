// How the next token is chosen from the logits of all.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/tokenizer/bpe/token.hpp"

namespace tessera::generate {

using tokenizer::Token;

// In this order: the penalty, the temperature, then what is left out by top_k, by top_p and by min_p, as
// `transformers` has it.
struct Sampling {
  double temperature = 0;  // 0: the likeliest token
  std::int64_t top_k = 0;  // the likeliest so many; 0: all
  double top_p = 1;        // the likeliest that make up this share
  double min_p = 0;        // those at least so likely as this share of the likeliest
  double repetition_penalty =
      1;  // of the logits of tokens that were there: divided by it, or times it below 0
  std::uint64_t seed = 1;
};

// Throws UserError naming the option that means nothing.
void validate(const Sampling& sampling);

// `before` are the tokens of the prompt and those after it; `uniform`, from [0, 1), draws. Changes the
// logits.
Token pick(std::span<float> logits, std::span<const Token> before, const Sampling& sampling, double uniform);

}  // namespace tessera::generate
