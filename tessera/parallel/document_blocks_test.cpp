#include "tessera/parallel/document_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/program/ir/context_parallel.hpp"

namespace tessera::parallel {
namespace {

using Blocks = std::vector<DocumentBlock>;

TEST(DocumentBlocks, OfOneDocumentAreTheRegionsThatARingSees) {
  const Range all{0, 3};
  EXPECT_EQ(DocumentBlocks({}, 3, 7, 1, 0).with_keys_of(0), (Blocks{{all, {0, 7}, {0, 7}, true}}));
  const DocumentBlocks second({}, 3, 8, 3, 1);
  EXPECT_EQ(second.with_keys_of(0), (Blocks{{all, {0, 8}, {0, 4}, false}}));
  EXPECT_EQ(second.with_keys_of(1), (Blocks{{all, {0, 8}, {0, 8}, true}}));
  EXPECT_EQ(second.with_keys_of(2), (Blocks{{all, {4, 4}, {0, 8}, false}}));
}

TEST(DocumentBlocks, OfEqualSamplesThatFollowEachOtherAreShared) {
  const Documents documents{{{8}, {8}, {3, 8}, {3, 8}, {8}}};
  EXPECT_EQ(DocumentBlocks(documents, 5, 8, 1, 0).with_keys_of(0), (Blocks{{{0, 2}, {0, 8}, {0, 8}, true},
                                                                           {{2, 2}, {0, 3}, {0, 3}, true},
                                                                           {{2, 2}, {3, 5}, {3, 5}, true},
                                                                           {{4, 1}, {0, 8}, {0, 8}, true}}));
}

TEST(Documents, BeginWhereTheOneBeforeEnds) {
  const Documents documents{{{8}, {3, 5, 8}}};
  const auto begins = [&](std::int64_t sample) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < 8; ++i) out.push_back(documents.begin_of(sample, i));
    return out;
  };
  EXPECT_EQ(begins(0), (std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(begins(1), (std::vector<std::int64_t>{0, 0, 0, 3, 3, 5, 5, 5}));
}

// Places 0 and 1 hold positions 0 1 6 7 and 2 3 4 5.
TEST(DocumentBlocks, OfADocumentThatEndsWhereAChunkDoesHaveNothingInTheNext) {
  const Documents documents{{{2, 8}}};
  const DocumentBlocks first(documents, 1, 4, 2, 0), second(documents, 1, 4, 2, 1);
  EXPECT_EQ(first.with_keys_of(0), (Blocks{{{0, 1}, {0, 2}, {0, 2}, true}, {{0, 1}, {2, 2}, {2, 2}, true}}));
  EXPECT_EQ(first.with_keys_of(1), (Blocks{{{0, 1}, {2, 2}, {0, 4}, false}}));
  EXPECT_EQ(second.with_keys_of(0), Blocks());
  EXPECT_EQ(second.with_keys_of(1), (Blocks{{{0, 1}, {0, 4}, {0, 4}, true}}));
}

TEST(DocumentBlocks, HoldEveryPairThatMaySeeEachOtherOnceAndNoOther) {
  constexpr std::uint64_t kSeed = 11;
  constexpr std::int64_t kSequence = 48;
  for (std::uint64_t round = 0; round < 40; ++round) {
    std::vector<std::int64_t> ends;
    for (std::int64_t end = 1; end < kSequence; ++end)
      if (random_normal(kSeed, round, static_cast<std::uint64_t>(end)) > 1.2) ends.push_back(end);
    ends.push_back(kSequence);
    const auto document_of = [&](std::int64_t position) { return std::ranges::upper_bound(ends, position); };
    const std::int64_t ring = 1 + static_cast<std::int64_t>(round) % 4;
    for (const std::int64_t window : {0, 1, 2, 5, 12, 16, 60}) {
      std::vector<int> seen(static_cast<std::size_t>(kSequence * kSequence));
      for (std::int64_t i = 0; i < ring; ++i)
        for (std::int64_t j = 0; j < ring; ++j) {
          const auto mine = program::context_positions(kSequence, {ring, 1}, {i, 0}),
                     theirs = program::context_positions(kSequence, {ring, 1}, {j, 0});
          std::vector<int> begun(mine.size());
          for (const DocumentBlock& block :
               DocumentBlocks({{ends}, window}, 1, kSequence / ring, ring, i).with_keys_of(j)) {
            const auto& [samples, queries, keys, causal, reversed] = block;
            EXPECT_EQ(samples, (Range{0, 1}));
            EXPECT_TRUE(!causal || queries.count == keys.count);
            for (std::int64_t q = 0; q < queries.count; ++q) {
              int& rows = begun.at(static_cast<std::size_t>(queries.first + q));
              if (i == j) {
                ASSERT_EQ(rows, block.begins_rows() ? 0 : 1) << "a row is merged before it begins";
              }
              rows = 1;
              for (std::int64_t k = causal && reversed ? q : 0;
                   k < (causal && !reversed ? q + 1 : keys.count); ++k)
                ++seen[static_cast<std::size_t>(mine.at(static_cast<std::size_t>(queries.first + q)) *
                                                    kSequence +
                                                theirs.at(static_cast<std::size_t>(keys.first + k)))];
            }
          }
        }
      for (std::int64_t q = 0; q < kSequence; ++q)
        for (std::int64_t k = 0; k < kSequence; ++k)
          ASSERT_EQ(seen[static_cast<std::size_t>(q * kSequence + k)],
                    k <= q && document_of(k) == document_of(q) && (window == 0 || k > q - window) ? 1 : 0)
              << "round " << round << ", ring " << ring << ", window " << window << ", query " << q
              << ", key " << k;
    }
  }
}

TEST(DocumentBlocks, OfDocumentsThatDoNotMakeUpTheSequenceAreABug) {
  EXPECT_THROW(DocumentBlocks({{{4, 7}}}, 1, 8, 1, 0), Bug);
  EXPECT_THROW(DocumentBlocks({{{4, 4, 8}}}, 1, 8, 1, 0), Bug);
  EXPECT_THROW(DocumentBlocks({{{8}}}, 2, 8, 1, 0), Bug);
  EXPECT_THROW(DocumentBlocks({}, 1, 7, 2, 0), Bug);
}

}  // namespace
}  // namespace tessera::parallel
