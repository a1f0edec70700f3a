// A short word as two numbers, made without a branch for its length.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tessera::tokenizer {

inline constexpr std::size_t kMostKeyBytes = 16;

// The bytes and zeros, and how many bytes they are.
struct WordKey {
  std::uint64_t low = 0, high = 0;
  std::uint8_t length = 0;
};

// The bits of so many bytes.
inline constexpr std::array<WordKey, kMostKeyBytes + 1> kWordMasks = [] {
  std::array<WordKey, kMostKeyBytes + 1> out;
  for (std::size_t bytes = 0; bytes <= kMostKeyBytes; ++bytes) {
    out[bytes].low = bytes >= 8 ? UINT64_MAX : (std::uint64_t{1} << 8 * bytes) - 1;
    out[bytes].high = bytes <= 8 ? 0 : bytes == 16 ? UINT64_MAX : (std::uint64_t{1} << 8 * (bytes - 8)) - 1;
  }
  return out;
}();

// Of a word of at most kMostKeyBytes; memory may be read up to `end`.
inline WordKey word_key(std::string_view word, const char* end) {
  WordKey out{.length = static_cast<std::uint8_t>(word.size())};
  if (end - word.data() >= static_cast<std::ptrdiff_t>(kMostKeyBytes)) {
    std::memcpy(&out.low, word.data(), 8);
    std::memcpy(&out.high, word.data() + 8, 8);
    out.low &= kWordMasks[word.size()].low;
    out.high &= kWordMasks[word.size()].high;
  } else {
    std::memcpy(&out.low, word.data(), std::min<std::size_t>(8, word.size()));
    if (word.size() > 8) std::memcpy(&out.high, word.data() + 8, word.size() - 8);
  }
  return out;
}

// So many bits that depend on all of the key.
inline std::size_t place_of(const WordKey& key, int bits) {
  const std::uint64_t mixed = (key.low ^ key.length) * 0x9E3779B97F4A7C15 ^ key.high * 0xC2B2AE3D27D4EB4F;
  return static_cast<std::size_t>((mixed ^ mixed >> 31) * 0xD6E8FEB86659FD93 >> (64 - bits));
}

}  // namespace tessera::tokenizer
