#include "tessera/optim/optimizer.hpp"

#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/_fused_sgd_ops.h>

#include "tessera/base/error.hpp"

namespace tessera::optim {

using tensor::Tensor;

namespace {
std::size_t num_states(const spec::Training& rule) {
  if (rule.optimizer == spec::Optimizer::adamw) return 2;
  return rule.momentum > 0 ? 1 : 0;
}

// Independent sums, so that additions need not wait for each other and fill vector registers.
template <typename T>
[[gnu::always_inline]] inline double squares_of(const T* x, std::int64_t n) {
  constexpr std::int64_t kLanes = 32;
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j)
      sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  for (; i < n; ++i) sums[i % kLanes] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}
[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]] double squares(const float* x,
                                                                                         std::int64_t n) {
  return squares_of(x, n);
}
[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]] double squares(const double* x,
                                                                                         std::int64_t n) {
  return squares_of(x, n);
}
}  // namespace

BucketOptimizer::BucketOptimizer(const spec::Training& rule, shard::FlatBucket& bucket)
    : rule_(rule), bucket_(&bucket) {
  for (std::size_t i = 0; i < num_states(rule); ++i)
    flat_.push_back(
        tensor::zeros(bucket.shard().sizes(), bucket.shard().scalar_type(), bucket.shard().device()));
  const Tensor count = tensor::zeros({}, at::kFloat, bucket.shard().device());
  for (const auto& parameter : bucket.table().parameters) {
    const auto piece = [&](const Tensor& flat) {
      return flat.narrow(0, parameter.offset, parameter.elements());
    };
    values_.push_back(piece(bucket.shard()));
    gradients_.push_back(piece(bucket.gradient()));
    if (flat_.size() > 0) first_.push_back(piece(flat_[0]));
    if (flat_.size() > 1) second_.push_back(piece(flat_[1]));
    counts_.push_back(count);
  }
}

void BucketOptimizer::step(double learning_rate, std::int64_t count, double gradient_scale) {
  if (gradient_scale != 1.0) bucket_->gradient().mul_(gradient_scale);
  const double decay = bucket_->table().weight_decay ? rule_.weight_decay : 0.0;
  switch (rule_.optimizer) {
    case spec::Optimizer::adamw:
      counts_.front().fill_(count);
      at::_ops::_fused_adamw_::call(values_, gradients_, first_, second_, {}, counts_, learning_rate,
                                    rule_.beta1, rule_.beta2, decay, rule_.epsilon, false, false,
                                    std::nullopt, std::nullopt);
      break;
    case spec::Optimizer::sgd:
      at::_ops::_fused_sgd_::call(values_, gradients_, first_, decay, rule_.momentum, learning_rate, 0.0,
                                  false, false, count == 1, std::nullopt, std::nullopt);
      break;
  }
}

// The same sum by the device's kernels, in pieces that bound the fp64 copy.
double squares_on_device(const Tensor& flat) {
  constexpr std::int64_t kPiece = 1 << 24;
  Tensor total = tensor::zeros({}, at::kDouble, flat.device());
  for (std::int64_t first = 0; first < flat.numel(); first += kPiece) {
    const Tensor piece = flat.narrow(0, first, std::min(kPiece, flat.numel() - first)).to(at::kDouble);
    total.add_(piece.dot(piece));
  }
  return total.item<double>();
}

double squared_norm(const Tensor& flat) {
  if (!flat.is_cpu()) return squares_on_device(flat);
  if (flat.scalar_type() == at::kDouble) return squares(flat.const_data_ptr<double>(), flat.numel());
  CHECK(flat.scalar_type() == at::kFloat, "gradients are kept in fp32 or fp64");
  return squares(flat.const_data_ptr<float>(), flat.numel());
}

double clip_scale(double norm, double clip) { return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0; }

}  // namespace tessera::optim
