#include "tessera/program/ir/context_parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::program {
namespace {

using Positions = std::vector<std::int64_t>;

TEST(ContextPositions, OfARingPlaceAreAnEarlyAndALateChunk) {
  EXPECT_EQ(context_positions(12, {3, 1}, {0, 0}), (Positions{0, 1, 10, 11}));
  EXPECT_EQ(context_positions(12, {3, 1}, {1, 0}), (Positions{2, 3, 8, 9}));
  EXPECT_EQ(context_positions(12, {3, 1}, {2, 0}), (Positions{4, 5, 6, 7}));
}

TEST(ContextPositions, OfRanksThatExchangeHeadsAreNeighbouringPartsOfTheirPlace) {
  EXPECT_EQ(context_positions(9, {1, 3}, {0, 1}), (Positions{3, 4, 5}));
  EXPECT_EQ(context_positions(8, {2, 2}, {0, 0}), (Positions{0, 1}));
  EXPECT_EQ(context_positions(8, {2, 2}, {0, 1}), (Positions{6, 7}));
  EXPECT_EQ(context_positions(12, {2, 3}, {1, 1}), (Positions{5, 6}));
}

TEST(ContextPositions, AreEachHeldOnceRisingAndWithEqualWork) {
  for (const ContextSizes sizes : {ContextSizes{1, 1}, {1, 4}, {2, 1}, {2, 3}, {4, 2}, {5, 1}, {8, 8}}) {
    const std::int64_t sequence = 3 * context_multiple(sizes);
    Positions all;
    std::vector<std::int64_t> work;  // pairs of a query and a key before it or itself, by ring place
    for (std::int64_t r = 0; r < sizes.ring; ++r) {
      work.push_back(0);
      for (std::int64_t u = 0; u < sizes.heads; ++u) {
        const Positions mine = context_positions(sequence, sizes, {r, u});
        EXPECT_TRUE(std::ranges::is_sorted(mine));
        all.insert(all.end(), mine.begin(), mine.end());
        for (const auto position : mine) work.back() += position + 1;
      }
    }
    EXPECT_TRUE(std::ranges::all_of(work, [&](auto w) { return w == work[0]; }));
    std::ranges::sort(all);
    Positions expected(static_cast<std::size_t>(sequence));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(ContextPositions, AreCountedBeforeAnyPosition) {
  for (const std::int64_t ring : {1, 2, 3, 4})
    for (std::int64_t place = 0; place < ring; ++place) {
      const Positions held = context_positions(24, {ring, 1}, {place, 0});
      for (std::int64_t position = 0; position <= 24; ++position)
        EXPECT_EQ(context_positions_before(position, 24, ring, place),
                  std::ranges::count_if(held, [&](auto p) { return p < position; }));
    }
}

TEST(ContextPositions, OfASequenceThatDoesNotDivideAreABug) {
  EXPECT_EQ(context_multiple({1, 1}), 1);
  EXPECT_EQ(context_multiple({1, 3}), 3);
  EXPECT_EQ(context_multiple({2, 1}), 4);
  EXPECT_EQ(context_multiple({2, 2}), 4);
  EXPECT_EQ(context_multiple({2, 3}), 12);
  EXPECT_THROW(context_positions(10, {2, 1}, {0, 0}), Bug);
  EXPECT_THROW(context_positions(8, {2, 1}, {2, 0}), Bug);
}

TEST(ContextCalls, RepeatKeyHeadsOnlyWhereRanksWouldGoWithout) {
  EXPECT_EQ(exchanged_kv_heads(8, 4, 2), 4);
  EXPECT_EQ(exchanged_kv_heads(8, 2, 4), 4);
  EXPECT_EQ(exchanged_kv_heads(12, 6, 4), 12);
  EXPECT_EQ(exchanged_kv_heads(6, 2, 3), 6);
}

constexpr AttentionSizes kAttention{
    .samples = 2, .query_heads = 8, .kv_heads = 2, .positions = 16, .head_dim = 4, .compute = Dtype::bf16};
constexpr std::int64_t kHead = 2 * 16 * 4;  // elements of one head

TEST(ContextCalls, OfOneRankAreNone) { EXPECT_EQ(context_calls(kAttention, {1, 1}), ContextCalls{}); }

TEST(ContextCalls, OfARingPassKeysAndValuesTwiceAndTheirGradientsWideOnce) {
  const ContextCall keys{CollectiveKind::shift, ContextAxis::ring, 2 * 2 * kHead * 2};
  const ContextCall gradients{CollectiveKind::shift, ContextAxis::ring, 2 * 2 * kHead * 4};
  const ContextCalls calls = context_calls(kAttention, {3, 1});
  EXPECT_EQ(calls.forward, (std::vector{keys, keys}));
  EXPECT_EQ(calls.backward, (std::vector{keys, keys, gradients, gradients}));
}

TEST(ContextCalls, OfAnExchangeOfHeadsAreTwoEachWay) {
  const ContextCall there{CollectiveKind::all_to_all, ContextAxis::heads, (8 + 2 * 4) * kHead * 2};
  const ContextCall back{CollectiveKind::all_to_all, ContextAxis::heads, 8 * kHead * 2};
  const ContextCalls calls = context_calls(kAttention, {1, 4});
  EXPECT_EQ(calls.forward, (std::vector{there, back}));
  EXPECT_EQ(calls.backward, (std::vector{back, there}));
}

TEST(ContextCalls, OfBothStandInsideEachOther) {
  const ContextCalls calls = context_calls(kAttention, {2, 2});
  ASSERT_EQ(calls.forward.size(), 3u);
  ASSERT_EQ(calls.backward.size(), 4u);
  EXPECT_EQ(calls.forward[1], (ContextCall{CollectiveKind::shift, ContextAxis::ring, 2 * 2 * kHead * 2}));
}

}  // namespace
}  // namespace tessera::program
