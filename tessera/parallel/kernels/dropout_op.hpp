// Counter-based dropout as an operator of LibTorch, tessera::dropout: with kernels for CPUs and, in a build
// for GPUs, for CUDA, and with shapes for whoever asks for those alone.
#pragma once

#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel::kernels {

// What decides which elements are zeroed: sixteen bits of Philox for each, of which `dropped` values of 65536
// mean that it is.
struct Mask {
  tensor::Tensor samples, positions;  // int64, on the device of what is masked
  std::int64_t first = 0;             // row of samples * positions
  std::int64_t first_channel = 0;
  std::uint64_t key = 0;
  std::int64_t dropped = 0;
};

// x with its dropped elements zeroed and the others scaled so that the expectation stays. Contiguous, without
// a gradient.
tensor::Tensor dropout(const tensor::Tensor& x_TH, const Mask& mask);

}  // namespace tessera::parallel::kernels
