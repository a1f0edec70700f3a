// Which pairs of tokens merge, into what, and in which order: a hash table with open addressing.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "tessera/tokenizer/bpe/token.hpp"

namespace tessera::tokenizer {

// The lower rank merges first. No merge has the highest rank.
struct Merge {
  std::uint32_t rank = UINT32_MAX;
  Token into = kNoToken;
};

class MergeTable {
 public:
  explicit MergeTable(std::size_t num_merges)
      : slots_(std::bit_ceil(num_merges * 2 + 2)),
        shift_(64 - std::countr_zero(slots_.size())),
        filter_(slots_.size() / 8) {}

  // The last one said of a pair counts.
  void add(Token left, Token right, Merge merge) {
    const std::uint64_t key = key_of(left, right);
    std::size_t at = mixed(key) >> shift_;
    while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {key, merge};
    const std::uint64_t bit = mixed(key) >> (shift_ - 3);
    filter_[bit / 64] |= std::uint64_t{1} << bit % 64;
  }

  Merge find(Token left, Token right) const {
    const std::uint64_t key = key_of(left, right), hash = mixed(key);
    // Most pairs do not merge. That is known from a few bits that stay in the processor's cache.
    const std::uint64_t bit = hash >> (shift_ - 3);
    if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return {};
    for (std::size_t at = hash >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kEmpty) return {};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  static std::uint64_t key_of(Token left, Token right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  static std::uint64_t mixed(std::uint64_t key) { return (key ^ key >> 29) * 0x9E3779B97F4A7C15; }

  std::vector<Slot> slots_;
  int shift_;
  std::vector<std::uint64_t> filter_;  // eight bits for each slot
};

}  // namespace tessera::tokenizer
