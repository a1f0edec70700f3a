#include "tessera/tensor/tensor.hpp"

#include <gtest/gtest.h>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tensor/flop_count.hpp"
#include "tessera/tensor/peak.hpp"

namespace tessera::tensor {
namespace {

TEST(Graph, DifferentiatesOnceAndHoldsNoOutput) {
  const Tensor x = empty({3}, at::kDouble).fill_(2).requires_grad_(true);
  Graph graph;
  c10::weak_intrusive_ptr<c10::TensorImpl> output{c10::intrusive_ptr<c10::TensorImpl>()};
  {
    const Tensor y = x.mul(x);
    output = c10::weak_intrusive_ptr<c10::TensorImpl>(y.getIntrusivePtr());
    graph = Graph(std::vector{y});
  }
  EXPECT_TRUE(output.expired());
  const std::vector<Tensor> dy = {empty({3}, at::kDouble).fill_(1)}, leaves = {x};
  EXPECT_DOUBLE_EQ(graph.run(dy, leaves).front().sum().item<double>(), 12.0);
  EXPECT_THROW(graph.run(dy, leaves), Bug);
  EXPECT_FALSE(x.grad().defined());
}

TEST(BitEqual, TellsZeroFromMinusZero) {
  const Tensor zero = zeros({1}, at::kFloat);
  EXPECT_TRUE(bit_equal(zero, zero.clone()));
  EXPECT_FALSE(bit_equal(zero, zero.neg()));
}

TEST(FlopCount, CountsProductsOfThisThread) {
  const Tensor a = zeros({2, 3}, at::kFloat), b = zeros({3, 5}, at::kFloat), out = zeros({2, 5}, at::kFloat);
  FlopCount count;
  a.mm(b);
  out.addmm_(a, b);
  EXPECT_EQ(count.products(), 2 * (2 * 2 * 3 * 5));
  const Tensor q = zeros({1, 2, 4, 8}, at::kFloat);
  attention(q, q, q, /*causal=*/true);
  EXPECT_EQ(count.attention(), 4 * 2 * 4 * 4 * 8);
}

TEST(Peak, IsWhatOneProductReachesOrMore) {
  constexpr std::int64_t kSize = 256;
  const Tensor a = zeros({kSize, kSize}, at::kFloat).fill_(0.5);
  a.matmul(a);  // the first one pays for pages and caches
  const double begin = now_seconds();
  a.matmul(a);
  const double one = 2.0 * kSize * kSize * kSize / (now_seconds() - begin);
  const double peak = measured_flops_per_second(at::kFloat, 0.1);
  EXPECT_GE(peak, 0.5 * one) << "half: other programs share the processor";
  EXPECT_LT(peak, 1e15);
}

TEST(Wide, Fp64StaysAndAllElseIsFp32) {
  EXPECT_EQ(wide(at::kDouble), at::kDouble);
  for (const auto narrow : {at::kFloat, at::kBFloat16, at::kHalf}) EXPECT_EQ(wide(narrow), at::kFloat);
}

}  // namespace
}  // namespace tessera::tensor
