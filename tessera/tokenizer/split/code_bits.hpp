// A set of code points, one bit each, in pages of which most are all empty or all full.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/tokenizer/unicode/categories.hpp"

namespace tessera::tokenizer {

class CodeBits {
 public:
  CodeBits() : page_of_(kNumCodePoints / kPageCodes), pages_(1) {}
  explicit CodeBits(std::span<const CodeRange> ranges) : CodeBits() { add(ranges); }

  bool has(char32_t code) const {
    return pages_[page_of_[code / kPageCodes]][code % kPageCodes / 64] >> (code % 64) & 1;
  }
  void add(char32_t first, char32_t last);
  void add(std::span<const CodeRange> ranges) {
    for (const auto& [first, last] : ranges) add(first, last);
  }
  void add(const CodeBits& other);
  void invert() {
    for (Page& page : pages_)
      for (std::uint64_t& word : page) word = ~word;
  }
  bool operator==(const CodeBits& other) const;

 private:
  static constexpr char32_t kPageCodes = 256;
  using Page = std::array<std::uint64_t, kPageCodes / 64>;
  // For this part of the code points alone.
  Page& own_page(std::size_t part);

  std::vector<std::uint16_t> page_of_;
  std::vector<Page> pages_;  // the first is shared by all parts that were never changed
};

}  // namespace tessera::tokenizer
