// What words have become, so that each is merged once. One thread's. It forgets what it has no room for.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "tessera/tokenizer/bpe/bpe.hpp"
#include "tessera/tokenizer/bpe/token.hpp"
#include "tessera/tokenizer/bpe/word_key.hpp"

namespace tessera::tokenizer {

class WordCache {
 public:
  explicit WordCache(const Bpe& bpe) : bpe_(bpe), sets_(std::size_t{1} << kBits) {}

  // Appends the tokens of the words, none of which is empty. They lie in one buffer, each behind the one
  // before it.
  void encode(std::span<const std::string_view> words, std::vector<Token>& out);

 private:
  static constexpr int kBits = 16;
  static constexpr std::size_t kMostCachedBytes = 256, kMostLong = 1 << 17, kMostAtOnce = 32, kMostTokens = 3;

  struct Entry {
    std::uint64_t low = 0, high = 0;
    std::uint8_t length = 0, num_tokens = 0;
    std::array<Token, kMostTokens> tokens{};
    bool is_of(const WordKey& key) const {
      return low == key.low && high == key.high && length == key.length;
    }
  };
  // As large as a line of the processor's cache, and in one.
  struct alignas(64) Set {
    std::array<Entry, 2> entries;
  };
  static_assert(sizeof(Set) == 64);

  void remember(const WordKey& key, Set& set, std::string_view word, std::vector<Token>& out);
  void encode_long(std::string_view word, std::vector<Token>& out);

  const Bpe& bpe_;
  Bpe::Scratch scratch_;
  std::vector<Set> sets_;
  // Words that are longer, or become more tokens than an entry holds.
  ByteMap long_{kMostLong};         // where in long_tokens_
  std::vector<Token> long_tokens_;  // a count and so many tokens
};

}  // namespace tessera::tokenizer
