#include "tessera/parallel/layers.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include <functional>

#include "tessera/parallel/testing/random_tensor.hpp"

namespace tessera::parallel {
namespace {

Weight random_weight(const tensor::Shape& shape, std::uint64_t stream) {
  return Weight(random(shape, stream), tensor::empty(shape, at::kDouble).fill_(1e300));
}

// d loss / d x by central differences, loss a function of the changed tensor itself.
Tensor differences(Tensor x, const std::function<double()>& loss) {
  const at::NoGradGuard no_gradient;
  Tensor out = tensor::empty(x.sizes(), at::kDouble);
  double* data = x.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double saved = data[i], step = 1e-5;
    data[i] = saved + step;
    const double above = loss();
    data[i] = saved - step;
    const double below = loss();
    data[i] = saved;
    out.mutable_data_ptr<double>()[i] = (above - below) / (2 * step);
  }
  return out;
}

// Gradient of `loss` with respect to x through autograd.
Tensor gradient(const Tensor& loss, const Tensor& x) {
  const std::vector<Tensor> roots = {loss}, ones = {tensor::empty({}, at::kDouble).fill_(1)}, leaves = {x};
  return tensor::Graph(roots).run(ones, leaves).front();
}

std::vector<std::int64_t> first_positions(std::int64_t count) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(Linear, GivesTheInputGradientAtOnceAndTheWeightGradientWhenTold) {
  Weight weight = random_weight({4, 3}, 1);
  const Tensor x = random({5, 3}, 2).requires_grad_(true), dy = random({5, 4}, 3);
  WeightWork work;
  const Tensor dx = gradient(linear(x, weight, work).mul(dy).sum(), x);
  EXPECT_LT(distance(dx, dy.mm(weight.value())), 1e-14);
  EXPECT_FALSE(weight.written());
  work.run();
  EXPECT_LT(distance(weight.gradient(), dy.t().mm(x.detach())), 1e-13);
  EXPECT_TRUE(work.empty());
}

TEST(Linear, AddsItsBiasWhoseGradientIsTheSumOfRows) {
  Weight weight = random_weight({4, 3}, 1), bias = random_weight({4}, 4);
  const Tensor x = random({5, 3}, 2).requires_grad_(true), dy = random({5, 4}, 3);
  WeightWork work;
  const Tensor y = linear(x, weight, work, &bias);
  EXPECT_LT(distance(y.detach(), x.detach().mm(weight.value().t()).add(bias.value())), 1e-14);
  const Tensor dx = gradient(y.mul(dy).sum(), x);
  EXPECT_LT(distance(dx, dy.mm(weight.value())), 1e-14);
  EXPECT_FALSE(bias.written());
  work.run();
  EXPECT_LT(distance(bias.gradient(), dy.sum({0})), 1e-14);
  EXPECT_LT(distance(weight.gradient(), dy.t().mm(x.detach())), 1e-13);
}

TEST(Bias, SumsSixteenBitGradientsInThirtyTwo) {
  Weight bias(tensor::zeros({1}, at::kHalf), tensor::empty({1}, at::kFloat));
  bias.add_column_sums(tensor::empty({5000, 1}, at::kHalf).fill_(1));
  bias.add_column_sums(tensor::empty({1, 1}, at::kHalf).fill_(1));
  EXPECT_EQ(bias.gradient().item<double>(), 5001) << "fp16 has no 5001";
}

TEST(Weight, AddsUpTermsAfterTheFirstOverwritesWhatWasLeft) {
  Weight weight = random_weight({2, 2}, 1);
  const Tensor term = random({2, 2}, 2);
  weight.add(term, tensor::number(2.0));
  weight.add(term, tensor::number(0.5));
  EXPECT_LT(distance(weight.gradient(), term.mul(2.5)), 1e-14);
  weight.restart_gradient();
  weight.end_gradient();
  EXPECT_EQ(weight.gradient().abs().max().item<double>(), 0.0);
}

TEST(Embedding, AddsGradientsOfRepeatedTokens) {
  Weight weight = random_weight({4, 2}, 1);
  Tensor tokens = tensor::empty({3}, at::kLong);
  for (const int i : {0, 1, 2}) tokens.mutable_data_ptr<std::int64_t>()[i] = i == 2 ? 3 : 1;
  const Tensor anchor = tensor::zeros({1}, at::kDouble).requires_grad_(true), dy = random({3, 2}, 4);
  WeightWork work;
  gradient(embedding(tokens, weight, anchor, work).mul(dy).sum(), anchor);
  work.run();
  Tensor expected = tensor::zeros({4, 2}, at::kDouble);
  expected.select(0, 1).add_(dy.select(0, 0)).add_(dy.select(0, 1));
  expected.select(0, 3).add_(dy.select(0, 2));
  EXPECT_LT(distance(weight.gradient(), expected), 1e-14);
}

TEST(SplitAndRotate, IsTheRotationOfHalvesAndItsDerivative) {
  const std::int64_t samples = 2, positions = 3, heads = 4, kv_heads = 2, head_dim = 6;
  const Rotary turn = rotary(first_positions(positions), head_dim, {.theta = 100.0}, at::kDouble);
  const Tensor qkv = random({samples * positions, (heads + 2 * kv_heads) * head_dim}, 5).requires_grad_(true);
  const Tensor a = random({samples, heads, positions, head_dim}, 6);
  const Tensor b = random({samples, kv_heads, positions, head_dim}, 7), c = random(b.sizes().vec(), 8);
  const auto loss = [&] {
    const Heads h = split_and_rotate(qkv, turn, samples, heads, kv_heads);
    return h.q.mul(a).sum().add(h.k.mul(b).sum()).add(h.v.mul(c).sum());
  };
  const Tensor found = gradient(loss(), qkv);
  EXPECT_LT(distance(found, differences(qkv.detach(), [&] { return loss().item<double>(); })), 1e-8);

  const Heads h = split_and_rotate(qkv.detach(), turn, samples, heads, kv_heads);
  const Tensor raw =
      qkv.detach().view({samples, positions, -1, head_dim}).narrow(2, 0, heads).transpose(1, 2);
  const double cosine = std::cos(2 * std::pow(100.0, -1.0 / 3)),
               sine = std::sin(2 * std::pow(100.0, -1.0 / 3));
  const auto at = [](const Tensor& t, std::int64_t channel) {
    return t.select(0, 1).select(0, 3).select(0, 2).select(0, channel);
  };
  EXPECT_NEAR(at(h.q, 1).item<double>(),
              at(raw, 1).item<double>() * cosine - at(raw, 4).item<double>() * sine, 1e-14);
  EXPECT_NEAR(at(h.q, 4).item<double>(),
              at(raw, 4).item<double>() * cosine + at(raw, 1).item<double>() * sine, 1e-14);
}

TEST(SplitNormAndRotate, IsTheRotationOfNormedHeadsAndItsDerivative) {
  const std::int64_t samples = 2, positions = 3, heads = 4, kv_heads = 2, head_dim = 6;
  const Rotary turn = rotary(first_positions(positions), head_dim, {.theta = 100.0}, at::kDouble);
  const Tensor qkv = random({samples * positions, (heads + 2 * kv_heads) * head_dim}, 5).requires_grad_(true);
  const HeadNorm norm{random({head_dim}, 9).requires_grad_(true), random({head_dim}, 10).requires_grad_(true),
                      1e-2};
  const Tensor a = random({samples, heads, positions, head_dim}, 6);
  const Tensor b = random({samples, kv_heads, positions, head_dim}, 7), c = random(b.sizes().vec(), 8);
  const auto loss = [&] {
    const Heads h = split_norm_and_rotate(qkv, norm, turn, samples, heads, kv_heads);
    return h.q.mul(a).sum().add(h.k.mul(b).sum()).add(h.v.mul(c).sum());
  };
  for (const Tensor& x : {qkv, norm.q_D, norm.k_D})
    EXPECT_LT(distance(gradient(loss(), x), differences(x.detach(), [&] { return loss().item<double>(); })),
              1e-7);

  // Heads normed by other means, then turned.
  const Tensor plain = qkv.detach().clone();
  const Tensor all = plain.view({samples, positions, -1, head_dim});
  for (const auto& [first, count, weight] :
       {std::tuple{std::int64_t{0}, heads, norm.q_D}, {heads, kv_heads, norm.k_D}}) {
    const Tensor part = all.narrow(2, first, count);
    part.copy_(tensor::rms_norm(part, weight.detach(), norm.epsilon));
  }
  const Heads expected = split_and_rotate(plain, turn, samples, heads, kv_heads);
  const Heads found = split_norm_and_rotate(qkv, norm, turn, samples, heads, kv_heads);
  EXPECT_LT(distance(found.q, expected.q), 1e-14);
  EXPECT_LT(distance(found.k, expected.k), 1e-14);
  EXPECT_LT(distance(found.v, expected.v), 1e-14);
}

// Of 2 pi positions: a pair that turns once in them is between the bounds.
TEST(Rotary, SlowsTurnsThatTheContextHardlySees) {
  const std::int64_t positions = 2, head_dim = 8;
  const Frequencies f{.theta = 1e4, .factor = 8, .low = 1, .high = 4, .original_context = 4096};
  const Rotary found = rotary(first_positions(positions), head_dim, f, at::kDouble);
  const double expected[] = {1.0, 0.1, 0.01, 0.001 / 8};  // turns in the context: 652, 65, 6.5, 0.65
  for (std::int64_t pair = 0; pair < 4; ++pair)
    EXPECT_NEAR(found.sin_S1H.select(0, 1).flatten().select(0, pair).item<double>(), std::sin(expected[pair]),
                1e-15)
        << pair;
  const Frequencies between{.theta = 1e4, .factor = 8, .low = 1, .high = 9, .original_context = 4096};
  const double turns = 4096 * 0.01 / (2 * 3.14159265358979323846), kept = (turns - 1) / 8;
  EXPECT_NEAR(rotary(first_positions(positions), head_dim, between, at::kDouble)
                  .sin_S1H.select(0, 1)
                  .flatten()
                  .select(0, 2)
                  .item<double>(),
              std::sin(kept * 0.01 + (1 - kept) * 0.01 / 8), 1e-15);
}

TEST(Split, GivesTheThirdsAndTheirDerivative) {
  const std::int64_t samples = 2, positions = 3, heads = 4, head_dim = 5, hidden = heads * head_dim;
  const Tensor qkv = random({samples * positions, 3 * hidden}, 5).requires_grad_(true);
  const Tensor a = random({samples, heads, positions, head_dim}, 6), b = random(a.sizes().vec(), 7),
               c = random(a.sizes().vec(), 8);
  const auto loss = [&] {
    const Heads h = split(qkv, samples, heads);
    return h.q.mul(a).sum().add(h.k.mul(b).sum()).add(h.v.mul(c).sum());
  };
  const Tensor found = gradient(loss(), qkv);
  const auto back = [&](const Tensor& t) { return t.transpose(1, 2).reshape({samples * positions, hidden}); };
  EXPECT_LT(distance(found, tensor::concatenate({back(a), back(b), back(c)}, 1)), 1e-14);
}

TEST(SwiGlu, AgreesWithFiniteDifferences) {
  const Tensor x = random({3, 8}, 9).requires_grad_(true), dy = random({3, 4}, 10);
  const auto loss = [&] { return swiglu(x).mul(dy).sum(); };
  const Tensor found = gradient(loss(), x);
  EXPECT_LT(distance(found, differences(x.detach(), [&] { return loss().item<double>(); })), 1e-8);
}

TEST(VocabularyLoss, AgreesWithFiniteDifferencesAndIgnoresMaskedTargets) {
  Weight weight = random_weight({7, 3}, 11);
  const Tensor x = random({5, 3}, 12).requires_grad_(true);
  Tensor targets = tensor::empty({5}, at::kLong);
  for (const int i : {0, 1, 2, 3, 4}) targets.mutable_data_ptr<std::int64_t>()[i] = i == 2 ? -1 : i;
  WeightWork work;
  const auto loss = [&] { return vocabulary_loss(x, weight, targets, work, {}).item<double>(); };
  const Tensor dx = gradient(vocabulary_loss(x, weight, targets, work, {}), x);
  EXPECT_LT(distance(dx, differences(x.detach(), loss)), 1e-8);
  EXPECT_EQ(dx.select(0, 2).abs().max().item<double>(), 0.0);
  work.run();
  EXPECT_LT(distance(weight.gradient(), differences(weight.value(), loss)), 1e-8);
}

TEST(VocabularyLoss, TakesOutTheFactorThatItsGradientWasMadeWith) {
  for (const double factor : {1.0, 64.0, 0x1p-20}) {
    Weight weight = random_weight({7, 3}, 11);
    const Tensor x = random({5, 3}, 12).requires_grad_(true);
    Tensor targets = tensor::zeros({5}, at::kLong);
    WeightWork work;
    const Tensor loss = vocabulary_loss(x, weight, targets, work, {}, factor);
    const Tensor plain = vocabulary_loss(x, weight, targets, work, {});
    EXPECT_EQ(loss.item<double>(), plain.item<double>());
    EXPECT_LT(distance(gradient(loss, x), gradient(plain, x)), 1e-15);
    work.run();
    // Both losses left their term: together twice one of them.
    Weight once = random_weight({7, 3}, 11);
    WeightWork single;
    gradient(vocabulary_loss(x, once, targets, single, {}), x);
    single.run();
    EXPECT_LT(distance(weight.gradient(), once.gradient().mul(2)), 1e-14);
  }
}

TEST(VocabularyLoss, IsTheSameInOneChunkAndInMany) {
  const std::int64_t tokens = 1100;  // three chunks, the last one short
  Weight weight = random_weight({5, 3}, 13);
  const Tensor x = random({tokens, 3}, 14).requires_grad_(true);
  Tensor targets = tensor::empty({tokens}, at::kLong);
  for (std::int64_t i = 0; i < tokens; ++i) targets.mutable_data_ptr<std::int64_t>()[i] = i % 5;
  WeightWork work;
  const Tensor loss = vocabulary_loss(x, weight, targets, work, {});
  const Tensor scores = logits(x.detach(), weight, {});
  const Tensor expected = scores.logsumexp(1).sum().sub(scores.gather(1, targets.unsqueeze(1)).sum());
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-9);
  gradient(loss, x);
  work.run();
  const Tensor p =
      scores.softmax(1).sub(tensor::zeros({tokens, 5}, at::kDouble).scatter_(1, targets.unsqueeze(1), 1));
  EXPECT_LT(distance(weight.gradient(), p.t().mm(x.detach())), 1e-10);
}

}  // namespace
}  // namespace tessera::parallel
