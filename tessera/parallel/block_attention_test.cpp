#include "tessera/parallel/block_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/parallel/testing/random_tensor.hpp"

namespace tessera::parallel {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

Heads random_heads(std::int64_t queries, std::int64_t keys) {
  return {random({2, 4, queries, 8}, 1), random({2, 2, keys, 8}, 2), random({2, 2, keys, 8}, 3)};
}

// Sample 0 sees all; query 1 of sample 1 sees nothing, query 2 the first two keys.
Sight patchy(std::int64_t queries, std::int64_t keys) {
  Tensor added = tensor::zeros({2, 1, queries, keys}, at::kDouble);
  added[1][0][1].fill_(kNothing);
  added[1][0][2].narrow(0, 2, keys - 2).fill_(kNothing);
  return {false, added};
}

std::vector<std::pair<Heads, Sight>> masks() {
  return {{random_heads(6, 6), {true, {}}}, {random_heads(5, 7), {}}, {random_heads(5, 7), patchy(5, 7)}};
}

TEST(BlockAttention, ByProductsEqualsTheKernel) {
  for (const auto& [heads, sight] : masks()) {
    const Block a = attend_block(heads, sight), b = attend_block_by_products(heads, sight);
    EXPECT_LT(distance(a.out_BNQD, b.out_BNQD), 1e-14);
    EXPECT_LT(distance(a.lse_BNQ.exp(), b.lse_BNQ.exp()), 1e-13);
    // A row longer than the block: out and log-sum-exp are not the block's own.
    const Block row{a.out_BNQD.add(0.25), a.lse_BNQ.clamp_min(0).add(1)};
    const Tensor d_out = random(heads.q.sizes().vec(), 4);
    const Heads da = attend_block_backward(d_out, heads, row, sight),
                db = attend_block_by_products_backward(d_out, heads, row, sight);
    EXPECT_LT(distance(da.q, db.q), 1e-13);
    EXPECT_LT(distance(da.k, db.k), 1e-13);
    EXPECT_LT(distance(da.v, db.v), 1e-13);
  }
}

TEST(BlockAttention, InSixteenBitsKeepsItsLogSumExpWideAndRoundsTheRestOnce) {
  for (const auto& [heads, sight] : masks()) {
    const auto narrow = [](const Tensor& t) { return t.defined() ? t.to(at::kBFloat16) : t; };
    const Heads rounded{narrow(heads.q), narrow(heads.k), narrow(heads.v)};
    const Heads exact{rounded.q.to(at::kDouble), rounded.k.to(at::kDouble), rounded.v.to(at::kDouble)};
    const Block expected = attend_block(exact, sight);
    const Sight same{sight.causal, narrow(sight.added_B1QC)};
    for (const Block& found : {attend_block(rounded, same), attend_block_by_products(rounded, same)}) {
      EXPECT_EQ(found.lse_BNQ.scalar_type(), at::kFloat);
      EXPECT_EQ(found.out_BNQD.scalar_type(), at::kBFloat16);
      EXPECT_LT(distance(found.out_BNQD, expected.out_BNQD), 3e-2);
    }
  }
}

TEST(BlockAttention, OfNoKeyIsZeroWithALogSumExpOfMinusInfinity) {
  const Heads heads = random_heads(5, 7);
  const Block block = attend_block(heads, patchy(5, 7));
  EXPECT_EQ(block.lse_BNQ[1][0][1].item<double>(), kNothing);
  EXPECT_EQ(block.out_BNQD[1][0][1].abs().max().item<double>(), 0);
  EXPECT_TRUE(std::isfinite(block.lse_BNQ[0][0][1].item<double>()));
}

TEST(BlockAttention, BlocksMergeIntoTheRowWhateverTheirSizeAndWhereTheyAreBlind) {
  const Heads heads = random_heads(6, 10);
  const Sight sight = patchy(6, 10);
  const Block expected = attend_block(heads, sight);
  const auto block = [&](std::int64_t first, std::int64_t count) {
    const Heads part{heads.q, heads.k.narrow(2, first, count), heads.v.narrow(2, first, count)};
    return attend_block(part, {false, sight.added_B1QC.narrow(3, first, count).contiguous()});
  };
  // All queries but the blind one of sample 1 see the first keys.
  Block row = block(0, 3);
  merge_block(row, block(3, 6), 0);
  merge_block(row, block(9, 1), 0);
  for (const std::int64_t query : {0, 2, 3, 4, 5}) {
    EXPECT_LT(distance(row.out_BNQD.select(2, query), expected.out_BNQD.select(2, query)), 1e-14);
    EXPECT_LT(distance(row.lse_BNQ.select(2, query), expected.lse_BNQ.select(2, query)), 1e-14);
  }
}

TEST(BlockAttention, ABlockOfLaterQueriesLeavesEarlierOnesAlone) {
  const Heads heads = random_heads(6, 10);
  Block row = attend_block({heads.q, heads.k.narrow(2, 0, 4), heads.v.narrow(2, 0, 4)}, {});
  const Block before{row.out_BNQD.clone(), row.lse_BNQ.clone()};
  const Heads late{heads.q.narrow(2, 3, 3), heads.k.narrow(2, 4, 6), heads.v.narrow(2, 4, 6)};
  merge_block(row, attend_block(late, {}), 3);
  const Block expected = attend_block(heads, {});
  EXPECT_EQ(distance(row.out_BNQD.narrow(2, 0, 3), before.out_BNQD.narrow(2, 0, 3)), 0);
  EXPECT_LT(distance(row.out_BNQD.narrow(2, 3, 3), expected.out_BNQD.narrow(2, 3, 3)), 1e-14);
  EXPECT_LT(distance(row.lse_BNQ.narrow(2, 3, 3), expected.lse_BNQ.narrow(2, 3, 3)), 1e-14);
}

}  // namespace
}  // namespace tessera::parallel
