// Tensors for tests: random ones, and how far two are apart.
#pragma once

#include "tessera/base/random.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

// Of double; another stream has other values.
inline tensor::Tensor random(const tensor::Shape& shape, std::uint64_t stream) {
  constexpr std::uint64_t kSeed = 5;
  tensor::Tensor t = tensor::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.mutable_data_ptr<double>()[i] = random_normal(kSeed, stream, static_cast<std::uint64_t>(i));
  return t;
}

inline double distance(const tensor::Tensor& a, const tensor::Tensor& b) {
  return a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace tessera::parallel
