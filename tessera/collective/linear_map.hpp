// Puts a linear map and its transpose into autograd.
#pragma once

#include <functional>

#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {

using Map = std::function<at::Tensor(const at::Tensor&)>;

// forward(x); the gradient of x is backward(gradient). Neither may change its argument.
at::Tensor apply_linear(const at::Tensor& x, Map forward, Map backward);

}  // namespace tessera::collective
