// Counts the arithmetic of the matrix products and attention calls that really run on this thread.
#pragma once

#include <cstdint>
#include <memory>

namespace tessera::tensor {

// Counts from its construction to its destruction, kernels called from the constructing thread only.
class FlopCount {
 public:
  FlopCount();
  ~FlopCount();
  FlopCount(const FlopCount&) = delete;
  FlopCount& operator=(const FlopCount&) = delete;

  std::int64_t products() const;  // 2 m n k for each matrix product
  std::int64_t attention()
      const;  // causal attention counted whole: 4 b h s s d forward, 10 b h s s d backward

  struct State;

 private:
  std::unique_ptr<State> state_;
  std::uint64_t handle_ = 0;
};

}  // namespace tessera::tensor
