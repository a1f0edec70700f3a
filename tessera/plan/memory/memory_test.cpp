#include "tessera/plan/memory/memory.hpp"

#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/plan/compile.hpp"

namespace tessera::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

spec::Run ten_million_in_six_layers() {
  spec::Run run;
  run.model = {
      .layers = 6, .hidden = 384, .heads = 6, .kv_heads = 6, .ffn = 1024, .vocab = 256, .sequence = 256};
  run.layout.micro_batch = 4;
  run.training.global_batch = 8;
  return run;
}

std::int64_t of(const RankMemory& memory, Category category) { return memory.at_peak.of(category); }

TEST(PlannedMemory, CategoriesOfThePeakAddUpToIt) {
  for (const std::int64_t pp : {1, 2}) {
    spec::Run run = ten_million_in_six_layers();
    run.layout.pp = pp;
    const auto ranks = memory_of(compile(run));
    ASSERT_EQ(ranks.size(), static_cast<std::size_t>(pp));
    for (const RankMemory& rank : ranks) {
      std::int64_t sum = 0, alive = 0;
      for (const Category category : kPlannedCategories)
        if (category != Category::host) sum += of(rank, category);
      for (const auto& cell : rank.alive) alive += cell.bytes;
      EXPECT_EQ(sum, rank.peak_bytes);
      EXPECT_EQ(alive, rank.peak_bytes);
      EXPECT_EQ(of(rank, Category::optimizer), 2 * of(rank, Category::parameters));
    }
  }
}

TEST(PlannedMemory, EqualRanksAreToldOnce) {
  spec::Run run = ten_million_in_six_layers();
  run.layout.dp_replicate = 4;
  run.training.global_batch = 16;
  const auto ranks = memory_of(compile(run));
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].num_ranks, 4);
  EXPECT_THAT(ranks[0].moment, HasSubstr("micro-batch"));
}

TEST(PlannedMemory, ALayoutAboveTheLimitIsRefusedWithWhatFits) {
  spec::Run run = ten_million_in_six_layers();
  const std::int64_t peak = peak_bytes(compile(run));
  run.layout.memory_limit_mib = (peak >> 20) + 1;
  EXPECT_NO_THROW(hold_to_memory_limit(run, compile(run)));
  run.layout.memory_limit_mib = (peak >> 20) - 20;
  try {
    hold_to_memory_limit(run, compile(run));
    FAIL() << "above the limit, and not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("layout.memory_limit_mib"), HasSubstr("rank 0 would hold "),
                                    HasSubstr("layout.micro_batch=")));
  }
}

TEST(PlannedMemory, FixesFitAndComeByTheirTime) {
  const spec::Run run = ten_million_in_six_layers();
  const std::int64_t limit = peak_bytes(compile(run)) * 8 / 10;
  const auto found = fixes(run, compile(run), limit);
  ASSERT_FALSE(found.empty());
  double last = 0;
  for (const Fix& fix : found) {
    EXPECT_LE(fix.peak_bytes, limit) << fix.changes.front();
    EXPECT_GE(fix.slowdown, last);
    last = fix.slowdown;
  }
}

TEST(PlannedMemory, WhatNothingMakesFitIsSaidSo) {
  spec::Run run = ten_million_in_six_layers();
  run.layout.memory_limit_mib = 1;
  EXPECT_THAT([&] { hold_to_memory_limit(run, compile(run)); },
              testing::ThrowsMessage<UserError>(HasSubstr("Nothing that was tried fits")));
}

}  // namespace
}  // namespace tessera::plan
