// Do rows that travel to experts on other ranks come back as if one rank had them all?
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/parallel/experts/dispatch.hpp"
#include "tessera/parallel/experts/grouped_linear.hpp"
#include "tessera/parallel/experts/router.hpp"

namespace tessera::parallel {
namespace {

using shard::Weight;
using shard::WeightWork;
using tensor::Tensor;

constexpr std::int64_t kWidth = 6, kInner = 8;

Tensor drawn(const tensor::Shape& shape, std::uint64_t stream) {
  Tensor t = tensor::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.mutable_data_ptr<double>()[i] = random_normal(7, stream, static_cast<std::uint64_t>(i));
  return t;
}

// What all ranks together have.
struct Spread {
  std::string name;
  std::int64_t experts = 4, ranks = 1, slices = 1;
  std::vector<std::int64_t> tokens;  // by rank
  Tensor choices;                    // [all tokens, K]
  bool is_interleaved = false;       // rank r has tokens r, r + ranks, ...
};

struct OfExperts {
  Tensor out, dx, d_weights, d_up, d_down;
};

Tensor tanh_experts(const Tensor& x, const std::vector<std::int64_t>& rows, Weight& up, Weight& down,
                    WeightWork& work) {
  return grouped_linear(grouped_linear(x, rows, up, work).tanh(), rows, down, work);
}

std::vector<std::int64_t> tokens_of(const Spread& c, std::int64_t rank) {
  std::vector<std::int64_t> out;
  std::int64_t first = 0;
  for (std::int64_t r = 0; r < rank; ++r) first += c.tokens[static_cast<std::size_t>(r)];
  for (std::int64_t i = 0; i < c.tokens[static_cast<std::size_t>(rank)]; ++i)
    out.push_back(c.is_interleaved ? rank + i * c.ranks : first + i);
  return out;
}

// Each rank's own; gradients of the weights as the rank holds them.
OfExperts run_rank(const Spread& c, std::int64_t rank, const ExpertRanks& ranks) {
  const Tensor mine = tensor::indices(tokens_of(c, rank));
  const std::int64_t all = c.choices.size(0), k = c.choices.size(1);
  const Tensor x = drawn({all, kWidth}, 1).index_select(0, mine).requires_grad_();
  const Tensor weights = drawn({all, k}, 2).index_select(0, mine).requires_grad_();
  const Tensor d_out = drawn({all, kWidth}, 3).index_select(0, mine);
  const std::int64_t holders = c.ranks / c.slices, held = c.experts / holders, part = kInner / c.slices;
  const std::int64_t first = rank / c.slices * held, from = rank % c.slices * part;
  const Tensor up = drawn({c.experts, kInner, kWidth}, 4).narrow(0, first, held).narrow(1, from, part);
  const Tensor down = drawn({c.experts, kWidth, kInner}, 5).narrow(0, first, held).narrow(2, from, part);
  Weight up_weight(up.contiguous(), tensor::empty(up.sizes(), at::kDouble));
  Weight down_weight(down.contiguous(), tensor::empty(down.sizes(), at::kDouble));
  WeightWork work;
  const Dispatch dispatch(c.choices.index_select(0, mine), c.experts, mine, ranks);
  const Tensor rows = dispatch.to_experts(x);
  EXPECT_EQ(rows.size(0), std::accumulate(dispatch.rows().begin(), dispatch.rows().end(), std::int64_t{0}));
  const Tensor out =
      dispatch.combine(tanh_experts(rows, dispatch.rows(), up_weight, down_weight, work), weights);
  out.mul(d_out).sum().backward();
  work.run();
  up_weight.end_gradient(), down_weight.end_gradient();
  return {out.detach(), x.grad(), weights.grad(), up_weight.gradient(), down_weight.gradient()};
}

std::vector<OfExperts> run_all(const Spread& c) {
  std::vector<OfExperts> out(static_cast<std::size_t>(c.ranks));
  collective::run_ranks(static_cast<int>(c.ranks), [&](const collective::Communicator& communicator) {
    std::vector<int> all(static_cast<std::size_t>(c.ranks));
    std::iota(all.begin(), all.end(), 0);
    const ExpertRanks ranks{{"ep", collective::make_groups(communicator, {all}).front()}, c.slices};
    out[static_cast<std::size_t>(communicator.rank())] = run_rank(c, communicator.rank(), ranks);
  });
  return out;
}

// One expert after the other for one token after the other, by autograd alone.
OfExperts written_out(const Spread& c) {
  const std::int64_t all = c.choices.size(0), k = c.choices.size(1);
  const Tensor x = drawn({all, kWidth}, 1).requires_grad_(), weights = drawn({all, k}, 2).requires_grad_();
  const Tensor up = drawn({c.experts, kInner, kWidth}, 4).requires_grad_();
  const Tensor down = drawn({c.experts, kWidth, kInner}, 5).requires_grad_();
  std::vector<Tensor> rows;
  for (std::int64_t token = 0; token < all; ++token) {
    Tensor sum = x[token].mul(0);
    for (std::int64_t i = 0; i < k; ++i) {
      const auto expert = c.choices[token][i].item<std::int64_t>();
      if (expert >= 0) sum = sum.add(down[expert].mv(up[expert].mv(x[token]).tanh()).mul(weights[token][i]));
    }
    rows.push_back(sum.unsqueeze(0));
  }
  const Tensor out = tensor::concatenate(rows, 0);
  out.mul(drawn({all, kWidth}, 3)).sum().add(up.sum().add(down.sum()).add(weights.sum()).mul(0)).backward();
  return {out.detach(), x.grad(), weights.grad(), up.grad(), down.grad()};
}

double largest_error(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return a.numel() == 0 ? 0 : a.sub(b).abs().max().item<double>();
}

void expect_right(const Spread& c) {
  SCOPED_TRACE(c.name);
  const OfExperts expected = written_out(c);
  const auto found = run_all(c);
  const std::int64_t holders = c.ranks / c.slices, held = c.experts / holders, part = kInner / c.slices;
  for (std::int64_t rank = 0; rank < c.ranks; ++rank) {
    const OfExperts& f = found[static_cast<std::size_t>(rank)];
    const Tensor mine = tensor::indices(tokens_of(c, rank));
    const std::int64_t first = rank / c.slices * held, from = rank % c.slices * part;
    EXPECT_LT(largest_error(f.out, expected.out.index_select(0, mine)), 1e-12);
    EXPECT_LT(largest_error(f.dx, expected.dx.index_select(0, mine)), 1e-12);
    EXPECT_LT(largest_error(f.d_weights, expected.d_weights.index_select(0, mine)), 1e-12);
    EXPECT_LT(largest_error(f.d_up, expected.d_up.narrow(0, first, held).narrow(1, from, part)), 1e-12);
    EXPECT_LT(largest_error(f.d_down, expected.d_down.narrow(0, first, held).narrow(2, from, part)), 1e-12);
  }
}

Tensor routed(std::int64_t tokens, std::int64_t experts, std::int64_t k) {
  return route(drawn({tokens, experts}, 9), {}, {.experts_per_token = k}).experts_TK;
}

TEST(Dispatch, EveryRankGetsWhatOneRankWould) {
  const Tensor balanced = routed(12, 4, 2);
  expect_right({"one rank", 4, 1, 1, {12}, balanced});
  expect_right({"two", 4, 2, 1, {6, 6}, balanced});
  expect_right({"an expert each", 4, 4, 1, {3, 3, 3, 3}, balanced});
  expect_right({"ragged, one rank without a token", 4, 4, 1, {5, 0, 6, 1}, balanced});
  expect_right({"slices", 4, 2, 2, {6, 6}, balanced});
  expect_right({"ranks and slices", 4, 4, 2, {3, 2, 3, 4}, balanced});
  expect_right({"interleaved", 4, 4, 2, {3, 3, 3, 3}, balanced, true});
  expect_right({"one expert", 1, 2, 2, {6, 6}, routed(12, 1, 1)});
  expect_right({"all experts", 4, 2, 1, {6, 6}, routed(12, 4, 4)});
}

TEST(Dispatch, BearsAnyLoad) {
  const Tensor balanced = routed(12, 4, 2);
  const Tensor to_one = tensor::zeros({12, 1}, at::kLong).fill_(2);
  const Tensor dropped = balanced.masked_fill(drawn({12, 2}, 11).gt(0), -1);
  const Tensor nowhere = tensor::zeros({12, 2}, at::kLong).fill_(-1);
  for (const std::int64_t ranks : {1, 2, 4}) {
    const std::vector<std::int64_t> tokens(static_cast<std::size_t>(ranks), 12 / ranks);
    for (const std::int64_t slices : {1, 2}) {
      if (ranks % slices != 0) continue;
      expect_right({"all to one", 4, ranks, slices, tokens, to_one});
      expect_right({"half are dropped", 4, ranks, slices, tokens, dropped});
      expect_right({"nothing is sent", 4, ranks, slices, tokens, nowhere});
    }
  }
}

// Bits: the sums of an expert's gradient run over its rows in the order of the tokens, whoever had them.
TEST(Dispatch, SumsOfAnExpertDoNotDependOnWhoHadItsTokens) {
  const Tensor choices = routed(12, 4, 2);
  const auto rows = run_all({"rows", 4, 2, 1, {6, 6}, choices});
  const auto interleaved = run_all({"interleaved", 4, 2, 1, {6, 6}, choices, true});
  const auto alone = run_all({"alone", 4, 1, 1, {12}, choices});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(tensor::bit_equal(rows[rank].d_up, interleaved[rank].d_up));
    EXPECT_TRUE(
        tensor::bit_equal(rows[rank].d_up, alone[0].d_up.narrow(0, static_cast<std::int64_t>(rank) * 2, 2)));
  }
}

TEST(Router, OfEqualScoresTheLowerExpertWins) {
  const Tensor logits = tensor::zeros({3, 8}, at::kFloat);
  const auto choice = route(logits, {}, {.experts_per_token = 3}).experts_TK;
  for (std::int64_t token = 0; token < 3; ++token)
    for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(choice[token][i].item<std::int64_t>(), i);
}

TEST(Router, WeightsAreScoresOfTheChosen) {
  const Tensor logits = drawn({5, 8}, 12);
  const auto plain = route(logits, {}, {.experts_per_token = 2, .normalizes = false});
  EXPECT_LT(largest_error(plain.weights_TK, std::get<0>(logits.softmax(1).topk(2, 1))), 1e-15);
  const auto normal = route(logits, {}, {.experts_per_token = 2, .scale = 2.5});
  EXPECT_LT(largest_error(normal.weights_TK.sum(1), tensor::zeros({5}, at::kDouble).fill_(2.5)), 1e-14);
}

TEST(Router, ABiasMovesTheChoiceAndNotTheWeights) {
  const Tensor logits = drawn({5, 4}, 13);
  Tensor bias = tensor::zeros({4}, at::kDouble);
  bias.narrow(0, 3, 1).fill_(10);
  const RouterRule rule{.scores = RouterRule::Scores::sigmoid, .experts_per_token = 1, .normalizes = false};
  const auto routing = route(logits, bias, rule);
  EXPECT_TRUE(routing.experts_TK.eq(3).all().item<bool>());
  EXPECT_LT(largest_error(routing.weights_TK, logits.sigmoid().narrow(1, 3, 1)), 1e-15);
}

// Groups of two: the best expert lies in a group whose sum is not among the kept ones.
TEST(Router, ChoosesFromTheGroupsWhoseTwoBestAddUpToMost) {
  Tensor logits = tensor::zeros({1, 6}, at::kDouble);
  const std::vector<double> values = {3.0, -9.0, 2.0, 2.0, 1.5, 2.5};
  for (std::int64_t i = 0; i < 6; ++i) logits.narrow(1, i, 1).fill_(values[static_cast<std::size_t>(i)]);
  const auto choice =
      route(logits, {},
            {.scores = RouterRule::Scores::sigmoid, .experts_per_token = 3, .groups = 3, .groups_kept = 2})
          .experts_TK;
  EXPECT_EQ(choice[0][0].item<std::int64_t>(), 5);
  EXPECT_EQ(choice[0][1].item<std::int64_t>(), 2);
  EXPECT_EQ(choice[0][2].item<std::int64_t>(), 3);
}

// Two sequences of four tokens and two experts; an expert takes two of the four choices of a sequence, times
// the factor. Positions decide who comes first, whichever rank has them.
TEST(Router, OverCapacityTheLaterPositionsAreDropped) {
  const std::vector<std::int64_t> experts = {0, 0, 0, 1, 1, -1, 1, 1}, sequences = {0, 0, 0, 0, 1, 1, 1, 1},
                                  positions = {0, 1, 2, 3, 0, 1, 2, 3};
  const auto kept = [&](int ranks, double factor, bool is_interleaved) {
    std::vector<std::int64_t> out(experts.size());
    collective::run_ranks(ranks, [&](const collective::Communicator& communicator) {
      std::vector<int> all(static_cast<std::size_t>(ranks));
      std::iota(all.begin(), all.end(), 0);
      std::vector<std::int64_t> mine;
      for (std::int64_t i = 0; i < 8 / ranks; ++i)
        mine.push_back(is_interleaved ? communicator.rank() + i * ranks
                                      : communicator.rank() * (8 / ranks) + i);
      const Tensor own = tensor::indices(mine);
      const auto of = [&](const std::vector<std::int64_t>& values) {
        return tensor::indices(values).index_select(0, own);
      };
      const Tensor found = within_capacity({of(experts).unsqueeze(1), of(sequences), of(positions), 2},
                                           factor, 2, collective::make_groups(communicator, {all}).front());
      for (std::size_t i = 0; i < mine.size(); ++i)
        out[static_cast<std::size_t>(mine[i])] = found[static_cast<std::int64_t>(i)][0].item<std::int64_t>();
    });
    return out;
  };
  const std::vector<std::int64_t> even = {0, 0, -1, 1, 1, -1, 1, -1}, most = {0, 0, 0, 1, 1, -1, 1, 1},
                                  fewest = {0, -1, -1, 1, 1, -1, -1, -1};
  for (const int ranks : {1, 2, 4})
    for (const bool is_interleaved : {false, true}) {
      EXPECT_EQ(kept(ranks, 1, is_interleaved), even);
      EXPECT_EQ(kept(ranks, 2, is_interleaved), most);
      EXPECT_EQ(kept(ranks, 0.5, is_interleaved), fewest);
    }
}

TEST(Router, LoadsAreCountedBySample) {
  Tensor choices = tensor::zeros({4, 2}, at::kLong);
  const std::vector<std::int64_t> values = {0, 1, 1, 2, 2, -1, 2, 0};
  choices.view({-1}).copy_(tensor::indices(values));
  const std::vector<std::int64_t> samples = {0, 0, 1, 1};
  const Tensor counted = loads(choices, tensor::indices(samples), 2, 3);
  const std::vector<std::int64_t> expected = {1, 2, 1, 1, 0, 2};
  EXPECT_TRUE(tensor::bit_equal(counted.reshape({-1}), tensor::indices(expected)));
}

}  // namespace
}  // namespace tessera::parallel
