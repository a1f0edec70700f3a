#include "tessera/optim/optimizer.hpp"

#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/_fused_sgd_ops.h>

#include "tessera/base/error.hpp"
#include "tessera/tensor/account.hpp"

namespace tessera::optim {

using tensor::Tensor;

namespace {
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
template <typename T>
double squares_plain(const T* x, std::int64_t n) {
  return squares_of(x, n);
}
#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx512f"), gnu::optimize("O3")]] double squares_512(const T* x, std::int64_t n) {
  return squares_of(x, n);
}
template <typename T>
[[gnu::target("avx2"), gnu::optimize("O3")]] double squares_256(const T* x, std::int64_t n) {
  return squares_of(x, n);
}
// Chosen by hand, as random.cpp says why.
template <typename T>
const auto squares = __builtin_cpu_supports("avx512f") ? squares_512<T>
                     : __builtin_cpu_supports("avx2")  ? squares_256<T>
                                                       : squares_plain<T>;
#else
template <typename T>
const auto squares = squares_plain<T>;
#endif
}  // namespace

BucketOptimizer::BucketOptimizer(const spec::Training& rule, shard::FlatBucket& bucket)
    : rule_(rule), bucket_(&bucket), count_(tensor::zeros({}, at::kFloat, bucket.device())) {}

std::size_t BucketOptimizer::num_states() const {
  if (bucket_->table().rule == program::UpdateRule::sign) return 0;
  if (rule_.optimizer == spec::Optimizer::adamw) return 2;
  return rule_.momentum > 0 ? 1 : 0;
}

void BucketOptimizer::make_state() {
  const tensor::CategoryScope as(Category::optimizer);
  for (std::size_t i = 0; i < num_states(); ++i)
    state_.push_back(tensor::zeros({bucket_->shard_elements()}, shard::to_torch(bucket_->table().storage),
                                   bucket_->device()));
}

void BucketOptimizer::set_state(std::vector<Tensor> state) {
  TESSERA_CHECK(state.empty() || state.size() == num_states(), "an optimizer's state of ", state.size(),
                " parts");
  state_ = std::move(state);
}

// Note [Slices are multiples of 64 elements]
// The kernels below treat what is left beside whole vector registers by scalar code, which rounds
// differently. A bucket in one piece, padded so that any slice of it fills whole registers, gets the same
// bits from every slicing.
void BucketOptimizer::step(double learning_rate, std::int64_t count, const Tensor& gradient_scale,
                           const Tensor& skips) {
  TESSERA_CHECK(state_.size() == num_states(), "bucket ", bucket_->table().name,
                " is stepped while its state lies outside");
  const bool on_cpu = skips.is_cpu();  // where it costs nothing to ask
  if (on_cpu && skips.item<double>() != 0) return;
  if (bucket_->table().rule == program::UpdateRule::sign) return step_by_sign(skips);
  if (!on_cpu || gradient_scale.item<double>() != 1.0) bucket_->shard_gradient().mul_(gradient_scale);
  const std::optional<Tensor> found_inf = on_cpu ? std::nullopt : std::optional(skips.to(at::kFloat));
  const double decay = bucket_->table().weight_decay ? rule_.weight_decay : 0.0;
  const std::vector<Tensor> values = {bucket_->shard()}, gradients = {bucket_->shard_gradient()};
  const auto state = [&](std::size_t i) {
    return i < state_.size() ? std::vector<Tensor>{state_[i]} : std::vector<Tensor>();
  };
  switch (rule_.optimizer) {
    case spec::Optimizer::adamw:
      count_.fill_(count);
      at::_ops::_fused_adamw_::call(values, gradients, state(0), state(1), {}, {count_}, learning_rate,
                                    rule_.beta1, rule_.beta2, decay, rule_.epsilon, false, false,
                                    std::nullopt, found_inf);
      break;
    case spec::Optimizer::sgd:
      at::_ops::_fused_sgd_::call(values, gradients, state(0), decay, rule_.momentum, learning_rate, 0.0,
                                  false, false, count == 1, std::nullopt, found_inf);
      break;
  }
}

void BucketOptimizer::step_by_sign(const Tensor& skips) {
  const Tensor taken = skips.eq(0).to(bucket_->shard().scalar_type());
  bucket_->shard().addcmul_(bucket_->shard_gradient().sign(), taken, -bucket_->table().sign_rate);
}

// The same sum by the device's kernels, in pieces that bound the fp64 copy.
Tensor squares_on_device(const Tensor& flat) {
  constexpr std::int64_t kPiece = 1 << 24;
  Tensor total = tensor::zeros({}, at::kDouble, flat.device());
  for (std::int64_t first = 0; first < flat.numel(); first += kPiece) {
    const Tensor piece = flat.narrow(0, first, std::min(kPiece, flat.numel() - first)).to(at::kDouble);
    total.add_(piece.dot(piece));
  }
  return total;
}

Tensor squared_norm(const Tensor& flat) {
  if (!flat.is_cpu()) return squares_on_device(flat);
  if (flat.scalar_type() == at::kDouble)
    return tensor::number(squares<double>(flat.const_data_ptr<double>(), flat.numel()), flat.device());
  TESSERA_CHECK(flat.scalar_type() == at::kFloat, "gradients are kept in fp32 or fp64");
  return tensor::number(squares<float>(flat.const_data_ptr<float>(), flat.numel()), flat.device());
}

Tensor clip_scale(const Tensor& norm, double clip) {
  if (clip == 0) return tensor::number(1, norm.device());
  return tensor::number(clip, norm.device()).div_(norm.add(1e-6)).clamp_max_(1);
}

}  // namespace tessera::optim
