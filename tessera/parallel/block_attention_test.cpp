#include "tessera/parallel/block_attention.hpp"

#include <gtest/gtest.h>

#include "tessera/parallel/testing/random_tensor.hpp"

namespace tessera::parallel {
namespace {

Heads random_heads(std::int64_t queries, std::int64_t keys) {
  return {random({2, 4, queries, 8}, 1), random({2, 2, keys, 8}, 2), random({2, 2, keys, 8}, 3)};
}

struct BlockCase {
  Heads heads;
  bool causal;
};
std::vector<BlockCase> block_cases() {
  return {{random_heads(6, 6), true},
          {random_heads(5, 7), false},
          {random_heads(1, 1), true},
          {random_heads(1, 4), false}};
}

TEST(BlockAttention, ByProductsEqualsTheKernel) {
  for (const auto& [heads, causal] : block_cases()) {
    const Block a = attend_block(heads, causal), b = attend_block_by_products(heads, causal);
    EXPECT_LT(distance(a.out_BNQD, b.out_BNQD), 1e-14);
    EXPECT_LT(distance(a.lse_BNQ, b.lse_BNQ), 1e-13);
    // A row longer than the block: out and log-sum-exp are not the block's own.
    const Block row{a.out_BNQD.add(0.25), a.lse_BNQ.clamp_min(0).add(1)};
    const Tensor d_out = random(heads.q.sizes().vec(), 4);
    const Heads da = attend_block_backward(d_out, heads, row, causal),
                db = attend_block_by_products_backward(d_out, heads, row, causal);
    EXPECT_LT(distance(da.q, db.q), 1e-13);
    EXPECT_LT(distance(da.k, db.k), 1e-13);
    EXPECT_LT(distance(da.v, db.v), 1e-13);
  }
}

TEST(BlockAttention, InSixteenBitsKeepsItsLogSumExpWideAndRoundsTheRestOnce) {
  for (const auto& [heads, causal] : block_cases()) {
    const auto narrow = [](const Tensor& t) { return t.to(at::kBFloat16); };
    const Heads rounded{narrow(heads.q), narrow(heads.k), narrow(heads.v)};
    const Heads exact{rounded.q.to(at::kDouble), rounded.k.to(at::kDouble), rounded.v.to(at::kDouble)};
    const Block expected = attend_block(exact, causal);
    for (const Block& found : {attend_block(rounded, causal), attend_block_by_products(rounded, causal)}) {
      EXPECT_EQ(found.lse_BNQ.scalar_type(), at::kFloat);
      EXPECT_EQ(found.out_BNQD.scalar_type(), at::kBFloat16);
      EXPECT_LT(distance(found.out_BNQD, expected.out_BNQD), 3e-2);
    }
  }
}

TEST(BlockAttention, BlocksMergeIntoTheRowWhateverTheirSize) {
  const Heads heads = random_heads(6, 10);
  const Block expected = attend_block(heads, false);
  const auto block = [&](std::int64_t first, std::int64_t count) {
    return attend_block({heads.q, heads.k.narrow(2, first, count), heads.v.narrow(2, first, count)}, false);
  };
  const Block row = block(0, 3);
  merge_block(row, block(3, 6));
  merge_block(row, block(9, 1));
  EXPECT_LT(distance(row.out_BNQD, expected.out_BNQD), 1e-14);
  EXPECT_LT(distance(row.lse_BNQ, expected.lse_BNQ), 1e-14);
}

TEST(BlockAttention, ABlockOfLaterQueriesLeavesEarlierOnesAlone) {
  const Heads heads = random_heads(6, 10);
  const Block row = attend_block({heads.q, heads.k.narrow(2, 0, 4), heads.v.narrow(2, 0, 4)}, false);
  const Block before{row.out_BNQD.clone(), row.lse_BNQ.clone()};
  const Heads late{heads.q.narrow(2, 3, 3), heads.k.narrow(2, 4, 6), heads.v.narrow(2, 4, 6)};
  merge_block({row.out_BNQD.narrow(2, 3, 3), row.lse_BNQ.narrow(2, 3, 3)}, attend_block(late, false));
  const Block expected = attend_block(heads, false);
  EXPECT_EQ(distance(row.out_BNQD.narrow(2, 0, 3), before.out_BNQD.narrow(2, 0, 3)), 0);
  EXPECT_LT(distance(row.out_BNQD.narrow(2, 3, 3), expected.out_BNQD.narrow(2, 3, 3)), 1e-14);
  EXPECT_LT(distance(row.lse_BNQ.narrow(2, 3, 3), expected.lse_BNQ.narrow(2, 3, 3)), 1e-14);
}

}  // namespace
}  // namespace tessera::parallel
