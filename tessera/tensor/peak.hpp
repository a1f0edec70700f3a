// Measures how fast this device multiplies: the yardstick of FLOP utilisation.
#pragma once

#include "tessera/tensor/tensor.hpp"

namespace tessera::tensor {

// FLOP/s of the fastest square matrix product seen in about `seconds`, from the calling thread.
double measured_flops_per_second(at::ScalarType dtype, double seconds, at::Device device = at::kCPU);

// How fast one thread of this processor multiplies values of a type, and how many fp32 products take as
// long as one of them: above 1 for types that the processor has no instructions for.
struct ProductSpeed {
  double flops_per_second = 0, times_fp32 = 1;
  bool is_slow() const { return times_fp32 > 1.2; }
};
ProductSpeed product_speed(at::ScalarType dtype);

}  // namespace tessera::tensor
