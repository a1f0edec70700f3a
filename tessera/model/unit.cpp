#include "tessera/model/unit.hpp"

namespace tessera::model {

Tensor Tape::leaf(shard::Weight& weight) {
  leaves.emplace_back(weight.value().detach().requires_grad_(true), &weight);
  return leaves.back().first;
}

Tensor Tape::wide_leaf(shard::Weight& weight) {
  const Tensor& value = weight.value();
  leaves.emplace_back(value.detach().to(tensor::wide(value.scalar_type())).requires_grad_(true), &weight);
  return leaves.back().first;
}

Tensor Tape::anchor() {
  if (!anchor_tensor.defined()) anchor_tensor = tensor::zeros({1}, at::kFloat).requires_grad_(true);
  return anchor_tensor;
}

}  // namespace tessera::model
