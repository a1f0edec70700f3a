// How long documents are: how many have 1, 2-3, 4-7, ... tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tessera::data {

class LengthHistogram {
 public:
  using Counts = std::array<std::uint64_t, 33>;  // [0]: empty ones; [i]: from 2^(i-1) on, below 2^i

  LengthHistogram() = default;
  explicit LengthHistogram(const Counts& counts) : counts_(counts) {}
  void add(std::uint64_t length);
  void add(const LengthHistogram& other);
  const Counts& counts() const { return counts_; }
  // A line with a bar for each row from the first to the last that is not empty.
  std::string to_text() const;
  bool operator==(const LengthHistogram&) const = default;

 private:
  Counts counts_{};
};

}  // namespace tessera::data
