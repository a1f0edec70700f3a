#include <gtest/gtest.h>

#include "tessera/planner/search/answer.hpp"
#include "tessera/planner/search/deal.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::planner {
namespace {

TEST(Deal, MicroBatchesAreInProportionToSpeed) {
  spec::Run run;
  run.layout.dp_replicate = 2;
  run.training.global_batch = 12;
  deal_by_speed(run, {2, 1}, 0);
  EXPECT_EQ(run.layout.micro_batches_by_rank, "8,4");
  EXPECT_DOUBLE_EQ(slowest_share(run.layout, {2, 1}, 0), 4.0 / 6);  // an even share would take the slow one 6
  EXPECT_TRUE(spec::problems(run).empty());
  run.layout.micro_batches_by_rank.clear();
  EXPECT_DOUBLE_EQ(slowest_share(run.layout, {2, 1}, 0), 1);
}

TEST(Deal, StagesAreInProportionToSpeedAndTheHeadCounts) {
  spec::Run run;
  run.model.layers = 12, run.layout.pp = 2;
  deal_by_speed(run, {2, 1}, 0);
  EXPECT_EQ(run.layout.stages, "9,5");  // eight blocks and the embedding, four and the head
  EXPECT_DOUBLE_EQ(slowest_share(run.layout, {2, 1}, 0), 4.0 / 6);
  deal_by_speed(run, {1, 1}, 2);
  EXPECT_EQ(run.layout.stages, "8,6");
  EXPECT_TRUE(spec::problems(run).empty());
}

TEST(Deal, AMixedClusterIsFasterThanItsSlowDevicesAloneAndSlowerThanAllFast) {
  spec::Run run;
  run.model.layers = 32, run.model.hidden = 4096, run.model.heads = run.model.kv_heads = 32,
  run.model.ffn = 11008;
  run.model.vocab = 32000, run.model.sequence = 4096, run.training.global_batch = 240;
  run.layout.precision = spec::Precision::bf16;
  const auto step = [&](const char* first, const char* second) {
    const Cluster cluster =
        parse_cluster(cat("[a]\ndevice = \"", first, "\"\n[b]\ndevice = \"", second, "\"\n"), "c.toml");
    return plan(run, cluster, Fit(), {.answers = 2}).answers.front().step.seconds;
  };
  const double old = step("A100-80GB-SXM", "A100-80GB-SXM"), mixed = step("H100-80GB-SXM", "A100-80GB-SXM"),
               all_new = step("H100-80GB-SXM", "H100-80GB-SXM");
  EXPECT_LT(mixed, 0.75 * old);
  EXPECT_GT(mixed, 1.2 * all_new);
}

}  // namespace
}  // namespace tessera::planner
