#include "tessera/optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::optim {
namespace {

using tensor::Tensor;

program::Bucket bucket_of_two(bool weight_decay) {
  program::Bucket bucket{.name = "b", .parameters = {{"w", {2, 1}, 0, {program::Init::Kind::ones, 0}}}};
  bucket.weight_decay = weight_decay;
  bucket.full_resident = true;
  bucket.storage = bucket.compute = bucket.gradient = program::Dtype::fp64;
  program::lay_out(bucket);
  return bucket;
}

void set_gradient(shard::FlatBucket& bucket, double first, double second) {
  Tensor gradient = tensor::zeros({bucket.shard_elements()}, at::kDouble);
  gradient.select(0, 0).fill_(first);
  gradient.select(0, 1).fill_(second);
  bucket.end_shard_gradient(false);
  bucket.add_to_shard_gradient(gradient);
}

TEST(AdamW, FollowsTheTextbookWithAndWithoutDecay) {
  for (const bool decays : {true, false}) {
    const auto table = bucket_of_two(decays);
    shard::FlatBucket bucket(table, 1);
    const spec::Training rule{
        .learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.5};
    BucketOptimizer optimizer(rule, bucket);
    optimizer.make_state();
    double w = 1, m = 0, v = 0;
    for (int t = 1; t <= 5; ++t) {
      const double g = 0.3 * t - 1;
      set_gradient(bucket, g, g);
      optimizer.step(0.1, t, tensor::number(0.5), tensor::number(0));
      const double clipped = g * 0.5;
      w *= decays ? 1 - 0.1 * 0.5 : 1;
      m = 0.9 * m + 0.1 * clipped;
      v = 0.99 * v + 0.01 * clipped * clipped;
      w -= 0.1 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.99, t))) + 1e-8);
    }
    EXPECT_NEAR(bucket.shard().select(0, 0).item<double>(), w, 1e-12);
  }
}

TEST(Sgd, FollowsTheTextbookWithMomentum) {
  const auto table = bucket_of_two(true);
  shard::FlatBucket bucket(table, 1);
  const spec::Training rule{.optimizer = spec::Optimizer::sgd, .weight_decay = 0.1, .momentum = 0.9};
  BucketOptimizer optimizer(rule, bucket);
  optimizer.make_state();
  double w = 1, momentum = 0;
  for (int t = 1; t <= 4; ++t) {
    set_gradient(bucket, 0.7 * t, 0);
    optimizer.step(0.01, t, tensor::number(1), tensor::number(0));
    momentum = 0.9 * momentum + 0.7 * t + 0.1 * w;
    w -= 0.01 * momentum;
  }
  EXPECT_NEAR(bucket.shard().select(0, 0).item<double>(), w, 1e-14);
}

// See Note [Slices are multiples of 64 elements].
TEST(BucketOptimizer, GivesTheSameBitsInEverySlicing) {
  program::Bucket table{.name = "b",
                        .parameters = {{"w", {37, 11}, 0, {program::Init::Kind::normal, 1}},
                                       {"v", {13}, 0, {program::Init::Kind::normal, 1}}}};
  program::lay_out(table);
  table.elements = 8 * 64;
  for (const auto kind : {spec::Optimizer::adamw, spec::Optimizer::sgd}) {
    const spec::Training rule{.optimizer = kind, .momentum = 0.9};
    const auto trained = [&](Slice slice) {
      shard::FlatBucket bucket(table, 5, slice);
      BucketOptimizer optimizer(rule, bucket);
      optimizer.make_state();
      for (int t = 1; t <= 3; ++t) {
        bucket.add_to_shard_gradient(bucket.shard().mul(0.1 * t));
        optimizer.step(1e-2, t, tensor::number(0.7), tensor::number(0));
        bucket.end_shard_gradient(false);
      }
      return bucket.shard();
    };
    const Tensor whole = trained({});
    for (const std::int64_t count : {2, 4, 8}) {
      std::vector<Tensor> slices;
      for (std::int64_t i = 0; i < count; ++i) slices.push_back(trained({i, count}));
      EXPECT_TRUE(tensor::bit_equal(tensor::concatenate(slices, 0), whole)) << count << " slices";
    }
  }
}

TEST(LearningRate, WarmsUpThenFollowsItsCurve) {
  spec::Training t{.steps = 110, .learning_rate = 1.0, .min_learning_rate = 0.1, .warmup_steps = 10};
  for (const auto decay :
       {spec::Decay::constant, spec::Decay::cosine, spec::Decay::linear, spec::Decay::wsd}) {
    t.decay = decay;
    EXPECT_DOUBLE_EQ(learning_rate(t, 0), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(t, 9), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(t, 10), 1.0);
  }
  t.decay = spec::Decay::cosine;
  EXPECT_NEAR(learning_rate(t, 60), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(t, 110), 0.1, 1e-12);
  t.decay = spec::Decay::linear;
  EXPECT_NEAR(learning_rate(t, 35), 0.775, 1e-12);
  t.decay = spec::Decay::wsd;
  t.decay_steps = 20;
  EXPECT_NEAR(learning_rate(t, 89), 1.0, 1e-12);
  EXPECT_NEAR(learning_rate(t, 100), 0.55, 1e-12);
}

TEST(Norm, IsSummedInDoublePrecisionAndClipsOnlyAbove) {
  Tensor t = tensor::empty({1'000'003}, at::kFloat).fill_(0.1);
  const double norm = squared_norm(t).item<double>();
  EXPECT_NEAR(norm, 1'000'003 * std::pow(static_cast<double>(0.1f), 2), 1e-6);
  EXPECT_NEAR(squares_on_device(t).item<double>(), norm, 1e-9 * norm);
  const auto scale = [](double of, double clip) {
    return clip_scale(tensor::number(of), clip).item<double>();
  };
  EXPECT_DOUBLE_EQ(scale(0.5, 1.0), 1.0);
  EXPECT_NEAR(scale(4.0, 1.0), 0.25, 1e-6);
  EXPECT_DOUBLE_EQ(scale(4.0, 0.0), 1.0);
}

}  // namespace
}  // namespace tessera::optim
