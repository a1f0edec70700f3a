#include "tessera/tokenizer/bpe/word_cache.hpp"

#include <algorithm>
#include <cstring>

namespace tessera::tokenizer {

void WordCache::encode(std::span<const std::string_view> words, std::vector<Token>& out) {
  std::array<WordKey, kMostAtOnce> keys;
  std::array<Set*, kMostAtOnce> sets;
  // As most words have one token, copying three and keeping one is faster than to ask.
  std::array<Token, kMostAtOnce * kMostTokens> found;
  while (!words.empty()) {
    const auto some = words.first(std::min(kMostAtOnce, words.size()));
    const char* end = some.back().data() + some.back().size();
    // Memory is slow: what is known of one word is on its way while the next ones are looked at.
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (some[i].size() > kMostKeyBytes) continue;
      keys[i] = word_key(some[i], end);
      sets[i] = &sets_[place_of(keys[i], kBits)];
      __builtin_prefetch(sets[i]);
    }
    std::size_t num_found = 0;
    const auto flush = [&] {
      out.insert(out.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(num_found));
      num_found = 0;
    };
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (some[i].size() > kMostKeyBytes) {
        flush();
        encode_long(some[i], out);
        continue;
      }
      const auto& entries = sets[i]->entries;
      const Entry& entry = entries[0].is_of(keys[i]) ? entries[0] : entries[1];
      if (!entry.is_of(keys[i])) {
        flush();
        remember(keys[i], *sets[i], some[i], out);
        continue;
      }
      std::memcpy(found.data() + num_found, entry.tokens.data(), sizeof entry.tokens);
      num_found += entry.num_tokens;
    }
    flush();
    words = words.subspan(some.size());
  }
}

void WordCache::remember(const WordKey& key, Set& set, std::string_view word, std::vector<Token>& out) {
  const std::size_t begin = out.size();
  encode_long(word, out);
  const std::size_t count = out.size() - begin;
  Entry entry{.low = key.low, .high = key.high, .length = key.length};
  if (count > entry.tokens.size()) return;
  entry.num_tokens = static_cast<std::uint8_t>(count);
  std::copy(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), entry.tokens.begin());
  set.entries[1] = set.entries[0];
  set.entries[0] = entry;
}

void WordCache::encode_long(std::string_view word, std::vector<Token>& out) {
  if (word.size() > kMostCachedBytes) return bpe_.encode(word, scratch_, out);
  if (const auto found = long_.find(word)) {
    const Token* tokens = long_tokens_.data() + *found;
    out.insert(out.end(), tokens + 1, tokens + 1 + tokens[0]);
    return;
  }
  const std::size_t begin = out.size();
  bpe_.encode(word, scratch_, out);
  const std::size_t count = out.size() - begin;
  if (word.size() <= kMostKeyBytes && count <= kMostTokens) return;
  if (long_.size() >= kMostLong) {
    long_.clear();
    long_tokens_.clear();
  }
  long_.add(word, static_cast<std::uint32_t>(long_tokens_.size()));
  long_tokens_.push_back(static_cast<Token>(count));
  long_tokens_.insert(long_tokens_.end(), out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
}

}  // namespace tessera::tokenizer
