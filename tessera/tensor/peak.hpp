// Measures how fast this device multiplies: the yardstick of FLOP utilisation.
#pragma once

#include "tessera/tensor/tensor.hpp"

namespace tessera::tensor {

// FLOP/s of the fastest square matrix product seen in about `seconds`, from the calling thread.
double measured_flops_per_second(at::ScalarType dtype, double seconds, at::Device device = at::kCPU);

}  // namespace tessera::tensor
