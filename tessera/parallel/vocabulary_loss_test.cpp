// Is the loss of a vocabulary that is cut over ranks that of one rank, in 16 bits too?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/random.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/parallel/layers.hpp"

namespace tessera::parallel {
namespace {

constexpr std::int64_t kTokens = 12, kHidden = 16, kVocabulary = 1024;

struct Head {
  Tensor x_TH, table_VH;
};

Head random_head(at::ScalarType dtype) {
  const auto random = [&](const tensor::Shape& shape, std::uint64_t stream) {
    Tensor t = tensor::empty(shape, at::kDouble);
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.mutable_data_ptr<double>()[i] = random_normal(5, stream, static_cast<std::uint64_t>(i));
    return t.to(dtype);
  };
  return {random({kTokens, kHidden}, 1), random({kVocabulary, kHidden}, 2)};
}

Tensor target_of(std::int64_t token) {
  return tensor::empty({1}, at::kLong).fill_(static_cast<double>((token * 397) % kVocabulary));
}

// Of each token by itself: in a sum over tokens rounding would cancel.
std::vector<double> losses(const Head& head, int tp) {
  std::vector<double> out;
  collective::run_ranks(tp, [&](const collective::Communicator& communicator) {
    std::vector<int> all(static_cast<std::size_t>(tp));
    std::iota(all.begin(), all.end(), 0);
    ParallelContext context;
    context.tp.group = collective::make_groups(communicator, {all}).front();
    const std::int64_t rows = kVocabulary / tp;
    const Tensor part = head.table_VH.narrow(0, rows * communicator.rank(), rows).contiguous();
    Weight weight(part, tensor::empty(part.sizes(), at::kFloat));
    WeightWork work;
    for (std::int64_t token = 0; token < kTokens; ++token) {
      const double loss =
          vocabulary_loss(head.x_TH.narrow(0, token, 1), weight, target_of(token), work, context)
              .item<double>();
      if (communicator.rank() == 0) out.push_back(loss);
    }
  });
  return out;
}

// The same from logits, where each rank's sum of exponentials, and its largest logit, are kept in `kept_in`.
std::vector<double> losses_merged_in(at::ScalarType kept_in, const Head& head, std::int64_t tp) {
  const Tensor logits = head.x_TH.mm(head.table_VH.t()).to(at::kFloat);
  std::vector<double> out;
  for (std::int64_t token = 0; token < kTokens; ++token) {
    const Tensor parts = logits.select(0, token).view({tp, -1});
    const Tensor largest = parts.amax(1).to(kept_in).to(at::kFloat);
    const Tensor sums = parts.sub(largest.unsqueeze(1)).exp().sum(1).to(kept_in).to(at::kFloat);
    const double everywhere = largest.max().item<double>();
    const double total = largest.sub(everywhere).exp().mul(sums).sum().item<double>();
    const double target = logits.select(0, token).index_select(0, target_of(token)).item<double>();
    out.push_back(std::log(total) + everywhere - target);
  }
  return out;
}

double worst_error(const std::vector<double>& found, const std::vector<double>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(std::isfinite(found[i]));
    worst = std::max(worst, std::abs(found[i] - expected[i]) / std::abs(expected[i]));
  }
  return worst;
}

// Of all tokens at once: the loss, and the gradients of x and of the table.
std::vector<Tensor> by_chunks_of(std::int64_t tokens, const Head& head) {
  ParallelContext context;
  context.loss_chunk = tokens;
  Tensor targets = tensor::empty({kTokens}, at::kLong);
  for (std::int64_t token = 0; token < kTokens; ++token) targets.narrow(0, token, 1).copy_(target_of(token));
  const Tensor x = head.x_TH.clone().requires_grad_();
  Weight weight(head.table_VH, tensor::zeros(head.table_VH.sizes(), at::kDouble));
  WeightWork work;
  const Tensor loss = vocabulary_loss(x, weight, targets, work, context);
  loss.backward();
  work.run();
  return {loss.detach(), x.grad(), weight.gradient()};
}

TEST(VocabularyLoss, IsTheSameByChunksOfAnySize) {
  const Head head = random_head(at::kDouble);
  const auto whole = by_chunks_of(512, head);
  for (const std::int64_t tokens : {1, 5, 12})
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_LT(by_chunks_of(tokens, head)[i].sub(whole[i]).abs().max().item<double>(), 1e-12)
          << "chunks of " << tokens << ", value " << i;
}

TEST(VocabularyLoss, OfACutVocabularyIsThatOfOneRank) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const int tp : {2, 4, 8}) {
      const Head head = random_head(dtype);
      EXPECT_LT(worst_error(losses(head, tp), losses(head, 1)), dtype == at::kDouble ? 1e-14 : 1e-6)
          << c10::toString(dtype) << ", " << tp << " ranks";
    }
}

TEST(KnownBugs, Row16_SumsOfACutVocabularyAreKeptIn16Bits) {
  const Head head = random_head(at::kBFloat16);
  const auto expected = losses(head, 1);
  EXPECT_LT(worst_error(losses(head, 4), expected), 1e-6);
  EXPECT_LT(worst_error(losses_merged_in(at::kFloat, head, 4), expected), 1e-6);
  // The bug itself.
  EXPECT_GT(worst_error(losses_merged_in(at::kBFloat16, head, 4), expected), 1e-4);
}

}  // namespace
}  // namespace tessera::parallel
