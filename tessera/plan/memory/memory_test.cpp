#include "tessera/plan/memory/memory.hpp"

#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"

namespace tessera::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

}  // namespace
}  // namespace tessera::plan
