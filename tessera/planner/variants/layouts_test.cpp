#include "tessera/planner/variants/layouts.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/identity.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::planner {
namespace {

spec::Run small_run() {
  spec::Run run;
  run.model = {.layers = 8, .hidden = 32, .heads = 8, .kv_heads = 2, .ffn = 48, .vocab = 48, .sequence = 48};
  run.training.global_batch = 12;
  run.cluster.transport = spec::Transport::threads;
  return run;
}

// One test, as its list takes a second to make.
TEST(Layouts, AreLegalAndHaveEverySizeOfEveryAxisEveryZeroStageAndEverySchedule) {
  const auto runs = layouts(small_run(), {.most_ranks = 4});
  EXPECT_GT(runs.size(), 60u);
  std::set<std::vector<std::int64_t>> sizes;
  std::map<std::int64_t, std::set<spec::Schedule>> schedules;
  for (const auto& run : runs) {
    EXPECT_LE(run.layout.ranks(), 4) << layout_text(run);
    EXPECT_TRUE(spec::problems(run).empty()) << layout_text(run);
    sizes.insert({run.layout.pp, run.layout.dp_shard, run.layout.zero});
    schedules[run.layout.pp].insert(run.layout.schedule);
  }
  for (const std::int64_t pp : {1, 2, 4})
    for (const std::int64_t shard : {2, 3, 4})
      for (const std::int64_t zero : {1, 2, 3})
        EXPECT_EQ(sizes.contains({pp, shard, zero}), pp * shard <= 4) << pp << " " << shard << " " << zero;
  for (const std::int64_t pp : {2, 3, 4})
    EXPECT_EQ(schedules[pp].size(), spec::words<spec::Schedule>().size());
}

TEST(Layouts, OfEqualProgramsCountOnce) {
  std::set<std::string> found;
  for (const auto& run : layouts(small_run(), {.most_ranks = 3}))
    EXPECT_TRUE(found.insert(plan::identity(plan::compile(run))).second) << layout_text(run);
}

TEST(Layouts, VaryOnlyInTheNamedAxes) {
  spec::Run given = small_run();
  given.layout.zero = 2;
  for (const auto& run : layouts(given, {.most_ranks = 4, .axes = {"dp"}})) {
    EXPECT_EQ(run.layout.zero, 2);
    EXPECT_EQ(run.layout.pp, 1);
    EXPECT_EQ(run.layout.schedule, given.layout.schedule);
    EXPECT_EQ(run.training, given.training);
  }
  EXPECT_THAT([&] { layouts(given, {.axes = {"zer"}}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("did you mean zero?")));
}

TEST(Identity, DoesNotDependOnWhatAxesAreCalledButOnWhoMeets) {
  const auto of = [](std::int64_t replicate, std::int64_t shard, std::int64_t zero) {
    spec::Run run = small_run();
    run.layout.dp_replicate = replicate;
    run.layout.dp_shard = shard;
    run.layout.zero = zero;
    return plan::identity(plan::compile(run));
  };
  EXPECT_EQ(of(2, 1, 0), of(1, 2, 0));
  EXPECT_NE(of(2, 1, 0), of(1, 2, 1));
  EXPECT_NE(of(2, 1, 0), of(4, 1, 0));
}

TEST(Spread, KeepsEveryTraitAndTheOrder) {
  const auto runs = layouts(small_run(), {.most_ranks = 3});
  const auto some = spread(runs, 30, 1);
  EXPECT_EQ(some.size(), 30u);
  std::set<std::pair<std::string, std::string>> all, kept;
  for (const auto& run : runs)
    for (const auto& trait : traits(run)) all.insert(trait);
  for (const auto& run : some)
    for (const auto& trait : traits(run)) kept.insert(trait);
  EXPECT_EQ(kept, all);
  auto at = runs.begin();
  for (const auto& run : some) at = std::find(at, runs.end(), run);
  EXPECT_NE(at, runs.end());
  EXPECT_NE(spread(runs, 30, 2), some);
}

}  // namespace
}  // namespace tessera::planner
