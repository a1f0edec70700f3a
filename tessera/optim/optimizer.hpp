// AdamW and SGD over a rank's slice of a bucket, by ATen's fused kernels.
#pragma once

#include "tessera/shard/flat_bucket.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::optim {

// The optimizer's state of one bucket, as its slice lies. It comes and goes as the program says.
class BucketOptimizer {
 public:
  // Without a state: make_state(), or set_state().
  BucketOptimizer(const spec::Training& rule, shard::FlatBucket& bucket);
  // One update of the bucket's Shard from its ShardGrad times `gradient_scale`, unless `skips` is not 0: both
  // fp64 numbers on the bucket's device, which an accelerator never tells the host. `count` is 1 for the
  // first step taken.
  void step(double learning_rate, std::int64_t count, const tensor::Tensor& gradient_scale,
            const tensor::Tensor& skips);
  // adamw: first and second moment; sgd: the velocity, if any.
  std::size_t num_states() const;
  std::span<const tensor::Tensor> state() const { return state_; }
  // All zeros, as before the first step.
  void make_state();
  // State leaves memory (no tensors) and comes back.
  void set_state(std::vector<tensor::Tensor> state);

 private:
  void step_by_sign(const tensor::Tensor& skips);

  spec::Training rule_;
  shard::FlatBucket* bucket_;
  std::vector<tensor::Tensor> state_;
  tensor::Tensor count_;
};

// Learning rate of the update number `step` (0 for the first): warm-up, then the curve of training.decay.
double learning_rate(const spec::Training& training, std::int64_t step);

// Sum of squares in fp64, on the tensor's device; squares_on_device by that device's kernels, whichever it
// is.
tensor::Tensor squared_norm(const tensor::Tensor& flat);
tensor::Tensor squares_on_device(const tensor::Tensor& flat);

// What clipping multiplies gradients with: min(1, clip / (norm + 1e-6)); 1 when clip is 0.
tensor::Tensor clip_scale(const tensor::Tensor& norm, double clip);

}  // namespace tessera::optim
