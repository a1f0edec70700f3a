#include "tessera/model/unit.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::model {

namespace {

// A copy: the tape would otherwise hold all of the bucket's weights from forward to backward.
Tensor copied(const Tensor& value, at::ScalarType dtype) {
  return value.detach().to(dtype, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true);
}

}  // namespace

Tensor Tape::leaf(shard::Weight& weight) {
  leaves.emplace_back(copied(weight.value(), weight.value().scalar_type()), &weight);
  return leaves.back().first;
}

Tensor Tape::wide_leaf(shard::Weight& weight) {
  leaves.emplace_back(copied(weight.value(), tensor::wide(weight.value().scalar_type())), &weight);
  return leaves.back().first;
}

Tensor Tape::anchor() {
  if (!anchor_tensor.defined()) anchor_tensor = tensor::zeros({1}, at::kFloat).requires_grad_(true);
  return anchor_tensor;
}

Tensor Unit::exchanged(std::size_t piece, const Tensor&, bool, const Batch&, const collective::Group&) const {
  throw Bug(cat("rows of piece ", piece, " are exchanged, and its unit sends none"));
}

}  // namespace tessera::model
