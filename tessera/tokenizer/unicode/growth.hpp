// Bounds on how much longer than its text the result of a tokenizer may become: rules of a file that each
// replace a letter by many would fill the memory within a few steps.
#pragma once

#include <cstddef>

namespace tessera::tokenizer {

// Unicode's own compositions grow a text 11-fold at most.
class GrowthLimit {
 public:
  // For what is made of that many bytes.
  explicit GrowthLimit(std::size_t bytes) : most_(kTimes * bytes + kSlack) {}
  // Throws UserError if `made` bytes are too many.
  void check(std::size_t made) const {
    if (made > most_) refuse();
  }

 private:
  static constexpr std::size_t kTimes = 16, kSlack = 1 << 16;
  [[noreturn]] void refuse() const;
  std::size_t most_;
};

}  // namespace tessera::tokenizer
