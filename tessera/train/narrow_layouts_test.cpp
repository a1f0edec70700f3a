// What must hold of layouts in bf16 and fp16, which no comparison with one device in fp64 sees: replicas are
// bit-equal, and a step that is not finite on one rank is skipped by all.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/train/testing/damaged.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/outcome.hpp"

namespace tessera::train {
namespace {

using spec::Precision;

const std::vector<spec::Layout> kLayouts = {
    {.dp_replicate = 2},
    {.dp_shard = 2, .zero = 1},
    {.dp_shard = 2, .zero = 2},
    {.dp_replicate = 2, .dp_shard = 2, .zero = 3},
    {.pp = 2, .dp_replicate = 2},
    {.pp = 2, .dp_shard = 2, .zero = 3, .schedule = "zb-v"_schedule},
    {.tp = 2},
    {.dp_replicate = 2, .tp = 2, .sequence_parallel = false},
    {.tp = 4, .tp_overlap = true},
    {.dp_shard = 2, .cp = 2, .zero = 2},
    {.cp = 2, .cp_heads = 2, .recompute = spec::Recompute::full},
    {.pp = 2, .dp_shard = 2, .tp = 2, .zero = 1},
};

// Each layout, with one family in bf16 and the other in fp16.
std::vector<spec::Run> runs(Precision precision) {
  std::vector<spec::Run> out;
  bool is_gpt2 = precision == Precision::fp16;
  for (const auto& layout : kLayouts) {
    auto run = is_gpt2 ? small_gpt2_run(1) : small_run(1);
    is_gpt2 = !is_gpt2;
    run.layout = layout;
    run.layout.micro_batch = 2;
    run.layout.precision = precision;
    run.model.layers = layout.pp == 1 ? 2 : 4;
    run.model.vocab = 60;
    run.model.sequence = 16;
    spec::validate(run);
    out.push_back(run);
  }
  return out;
}

std::string name_of(const spec::Run& run) {
  return cat(spec::word(run.model.family), " ", spec::word(run.layout.precision), ", ",
             planner::layout_text(run));
}

class Narrow : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Narrow, testing::Values(Precision::bf16, Precision::fp16),
                         [](const auto& info) { return spec::word(info.param); });

TEST_P(Narrow, ReplicasAreBitEqualInEveryLayout) {
  for (const auto& run : runs(GetParam()))
    collective::run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& me) {
      Session session(session_plan(run), me, random_source(run.model), {.keep_gradients = true});
      const auto outcome = outcome_of(session, me.rank(), run.training.clip_norm);
      EXPECT_TRUE(outcome.replicas_equal) << name_of(run);
      EXPECT_TRUE(outcome.numbers_equal) << name_of(run);
    });
}

TEST_P(Narrow, ReplicasThatDifferAreSeen) {
  const auto run = runs(GetParam()).front();
  const Damaged damaged{0, {collective::Harm::skipped, collective::CallKind::all_reduce}};
  collective::run_ranks(2, [&](const collective::Communicator& me) {
    Session session(session_plan(run), me, random_source(run.model),
                    {.step_groups = damaged, .keep_gradients = true});
    EXPECT_FALSE(outcome_of(session, me.rank(), run.training.clip_norm).replicas_equal);
  });
}

// One weight on the last rank is too large for what it is computed in, though not for the fp32 it is kept in.
TEST_P(Narrow, AStepThatOverflowsOnOneRankIsSkippedByAll) {
  const bool is_scaled = GetParam() == Precision::fp16;
  const double too_large = is_scaled ? 1e6 : 3e38;
  for (const auto& run : runs(GetParam()))
    collective::run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& me) {
      Session session(session_plan(run), me, random_source(run.model), {.keep_gradients = true});
      EXPECT_TRUE(session.step().taken) << name_of(run);
      const auto before = durable(session);
      const bool is_last = me.rank() == me.size() - 1;
      // Of a block: whatever a rank's tokens are, they meet it.
      const auto is_of_block = [](const auto& bucket) { return bucket.table().name.starts_with("block"); };
      tensor::Tensor weight = std::ranges::find_if(session.buckets(), is_of_block)->shard().select(0, 0);
      const double saved = weight.item<double>();
      if (is_last) weight.fill_(too_large);
      const auto report = session.step();
      if (is_last) weight.fill_(saved);
      EXPECT_FALSE(report.taken) << name_of(run) << ", rank " << me.rank();
      EXPECT_EQ(session.updates(), 1) << name_of(run);
      EXPECT_EQ(session.loss_scale(), is_scaled ? 32768 : 1) << name_of(run);
      const auto after = durable(session);
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(tensor::bit_equal(before[i], after[i])) << name_of(run) << ", tensor " << i;
      const auto outcome = outcome_of(session, me.rank(), run.training.clip_norm);
      EXPECT_EQ(session.updates(), 1 + kVerifySteps) << name_of(run);
      EXPECT_TRUE(outcome.replicas_equal) << name_of(run);
      EXPECT_TRUE(outcome.numbers_equal) << name_of(run);
    });
}

}  // namespace
}  // namespace tessera::train
