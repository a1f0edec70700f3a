// Learns which pairs of tokens to merge: again and again the most frequent one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tessera/tokenizer/bpe/bpe.hpp"
#include "tessera/tokenizer/learn/word_counts.hpp"

namespace tessera::tokenizer {

struct LearnLimits {
  std::size_t num_merges = 0;  // at most
  std::uint64_t least_count = 2;
  // Merges found so far, and at most.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;
};

// Of words that begin as `byte_tokens[byte]`; the tokens that merges make are numbered from `first_new` on.
// Of pairs that are equally frequent the one with the lower left token merges first, then the lower right
// one: the merges are those of the trainer in the pip package `tokenizers`.
std::vector<MergePair> learn_merges(std::span<const WordCount> words, std::span<const Token> byte_tokens,
                                    Token first_new, const LearnLimits& limits);

}  // namespace tessera::tokenizer
