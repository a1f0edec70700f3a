#include "tessera/plan/flops.hpp"

#include <gtest/gtest.h>

#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/planner/variants/layouts.hpp"
#include "tessera/planner/variants/spread.hpp"

namespace tessera::plan {
namespace {

spec::Run small_run(std::int64_t kv_heads) {
  spec::Run run;
  run.model = {
      .layers = 8, .hidden = 32, .heads = 8, .kv_heads = kv_heads, .ffn = 48, .vocab = 48, .sequence = 48};
  run.training.global_batch = 12;
  run.cluster.transport = spec::Transport::threads;
  return run;
}

program::StepFlops flops(const spec::Run& run) {
  return step_flops(compile(run), run.layout, run.training.global_batch);
}

program::StepFlops flops_on_one_device(spec::Run run) {
  run.layout = {.micro_batch = run.training.global_batch};
  return flops(run);
}

// Keys and values of two heads on eight ranks are each computed four times: a third of what they were is too
// much.
TEST(Flops, KeysThatRanksComputeAlikeAreHardwareFlopsAlone) {
  auto run = small_run(2);
  run.layout.tp = 8;
  const auto alone = flops_on_one_device(run);
  EXPECT_DOUBLE_EQ(alone.model, alone.hardware);
  EXPECT_DOUBLE_EQ(flops(run).model, alone.model);
  const double tokens = 12 * 48, keys = 2 * 8, once = 3 * 2 * tokens * 32 * keys * 8;  // of 8 layers
  EXPECT_DOUBLE_EQ(flops(run).hardware, alone.model + 3 * once);
}

// 1 s.
TEST(Flops, OfTheModelDoNotDependOnTheLayout) {
  int with_repeats = 0, uneven = 0;
  for (const std::int64_t kv_heads : {1, 2})
    for (const auto& run : planner::spread(planner::layouts(small_run(kv_heads), {.most_ranks = 4}), 60, 1)) {
      const double expected = flops_on_one_device(run).model;
      EXPECT_NEAR(flops(run).model, expected, 1e-12 * expected) << planner::layout_text(run);
      with_repeats += spec::tp_rep(run.model, run.layout) > 1 ? 1 : 0;
      uneven += run.training.global_batch % (run.layout.dp() * run.layout.micro_batch) != 0 ? 1 : 0;
    }
  EXPECT_GT(with_repeats, 20);
  EXPECT_GT(uneven, 20);
}

}  // namespace
}  // namespace tessera::plan
