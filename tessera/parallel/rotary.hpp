// Rotary position embeddings: by how much each pair of channels turns.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

// Rotary tables in the compute dtype, for halves of D rotated against each other: cosines for both halves,
// sines for one.
struct Rotary {
  tensor::Tensor cos_S1D, sin_S1H;
};
// Channel pair i turns by theta^(-2i/D) a position. linear: by that divided by `factor`. llama3 and yarn:
// pairs that make fewer than `low` turns in original_context positions turn `factor` times slower, those that
// make more than `high` as they are, those between by a blend of both: llama3 blends by turns, yarn by the
// number of the pair, and multiplies cosines and sines by attention_factor.
enum class Scaling { llama3, linear, yarn };
struct Frequencies {
  double theta = 10000, factor = 1, low = 1, high = 4;
  std::int64_t original_context = 8192;
  Scaling scaling = Scaling::llama3;
  double attention_factor = 1;
};
Rotary rotary(std::span<const std::int64_t> positions, std::int64_t head_dim, const Frequencies& frequencies,
              at::ScalarType dtype, at::Device device = at::kCPU);

}  // namespace tessera::parallel
