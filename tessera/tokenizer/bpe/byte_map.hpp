// A map from short byte strings to numbers, made for many look-ups: open addressing, keys in one buffer.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::tokenizer {

class ByteMap {
 public:
  // Holds up to so many keys.
  explicit ByteMap(std::size_t most)
      : slots_(std::bit_ceil(most * 2 + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

  std::size_t size() const { return size_; }
  void clear() {
    slots_.assign(slots_.size(), {});
    keys_.clear();
    size_ = 0;
  }

  // A key that is not in it yet.
  void add(std::string_view key, std::uint32_t value) {
    const std::uint64_t hash = hash_of(key);
    std::size_t at = hash >> shift_;
    while (slots_[at].is_taken) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {hash, static_cast<std::uint32_t>(keys_.size()), static_cast<std::uint32_t>(key.size()),
                  value, true};
    keys_ += key;
    ++size_;
  }

  std::optional<std::uint32_t> find(std::string_view key) const {
    const std::uint64_t hash = hash_of(key);
    for (std::size_t at = hash >> shift_; slots_[at].is_taken; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.hash == hash && slot.length == key.size() &&
          std::memcmp(keys_.data() + slot.key_at, key.data(), key.size()) == 0)
        return slot.value;
    }
    return std::nullopt;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t key_at = 0, length = 0, value = 0;
    bool is_taken = false;
  };

  static std::uint64_t hash_of(std::string_view key) {
    constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
    std::uint64_t hash = key.size() * kFactor;
    const auto mix = [&](std::size_t at, std::size_t bytes) {
      std::uint64_t word = 0;
      std::memcpy(&word, key.data() + at, bytes);
      hash = (hash ^ word) * kFactor;
      hash ^= hash >> 29;
    };
    std::size_t at = 0;
    for (; at + 8 <= key.size(); at += 8) mix(at, 8);
    if (at < key.size()) mix(at, key.size() - at);
    return hash * kFactor;
  }

  std::vector<Slot> slots_;
  int shift_;
  std::string keys_;
  std::size_t size_ = 0;
};

}  // namespace tessera::tokenizer
