// Would defects that other systems had be noticed here? Each test has the number of its row in
// docs/known-bugs.md: it puts the defect into a program or into a collective, asks that `verify` (or the
// checker) reports it, and that the program as it is passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/train/testing/damaged.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using program::Op;
using program::OpKind;
using program::Program;
using program::Role;
using program::Tables;
using ::testing::HasSubstr;

// Grouped queries and tied tables.
spec::Run run_with(const spec::Layout& layout) {
  spec::Run run = small_run(1);
  run.model.vocab = 60;
  run.model.tied_embeddings = true;
  run.layout = layout;
  run.layout.precision = spec::Precision::fp64;
  run.training.global_batch = 5;  // the last micro-batches are short, or empty
  return run;
}

std::int16_t set_named(const std::string& name, const Tables& tables) {
  const auto found = std::ranges::find(tables.axis_sets, name, &program::AxisSet::name);
  TESSERA_CHECK(found != tables.axis_sets.end(), "no axis set ", name);
  return static_cast<std::int16_t>(found - tables.axis_sets.begin());
}

std::int16_t axis_named(const std::string& name, const Tables& tables) {
  const auto found = std::ranges::find(tables.axes, name, &program::Axis::name);
  return static_cast<std::int16_t>(found - tables.axes.begin());
}

std::uint32_t number_of(Role role, const Tables& tables) {
  return static_cast<std::uint32_t>(std::ranges::find(tables.numbers, role, &program::Number::role) -
                                    tables.numbers.begin());
}

program::Bucket& bucket_named(const std::string& name, Tables& tables) {
  const auto found = std::ranges::find(tables.buckets, name, &program::Bucket::name);
  TESSERA_CHECK(found != tables.buckets.end(), "no bucket ", name);
  return *found;
}

std::uint32_t item_named(const std::string& bucket, Tables& tables) {
  return static_cast<std::uint32_t>(&bucket_named(bucket, tables) - tables.buckets.data());
}

program::Placement& placement_on(const std::string& axis, program::Bucket& bucket, const Tables& tables) {
  const auto found =
      std::ranges::find(bucket.placement, axis_named(axis, tables), &program::AxisPlacement::axis);
  TESSERA_CHECK(found != bucket.placement.end(), "bucket ", bucket.name, " is not placed on ", axis);
  return found->placement;
}

void rebuild_waits(Program& program) {
  for (auto& sequence : program.classes) build_waits(sequence, program.tables);
}

// One more sum of a number, after the last.
void sum_once_more(Role role, const std::string& over, Program& program) {
  const std::uint32_t number = number_of(role, program.tables);
  const auto is_sum = [&](const Op& op) { return op.what == OpKind::sum && op.item == number; };
  const Op more{.what = OpKind::sum, .item = number, .along = set_named(over, program.tables)};
  for (auto& sequence : program.classes) {
    const auto last = std::find_if(sequence.ops.rbegin(), sequence.ops.rend(), is_sum);
    sequence.ops.insert(last.base(), more);
  }
  rebuild_waits(program);
}

// A run, right, and the same with a defect.
class KnownBugs : public testing::Test {
 protected:
  Verification verified(const spec::Run& run, const Program& program, const StepGroups& step_groups = {}) {
    return verify_program(run, program, references_, step_groups);
  }

  // What is reported of the program that `put_in` changed; of the one as it is, nothing.
  template <typename Edit>
  Verification with_bug(const spec::Run& run, const Edit& put_in) {
    Program program = plan::compile(run);
    const Verification right = verified(run, program);
    EXPECT_TRUE(right.passed()) << to_text(right);
    EXPECT_EQ(program::to_text(program::check(program)), "");
    put_in(program);
    complaints_ = program::to_text(program::check(program));
    Verification wrong = verified(run, program);
    EXPECT_FALSE(wrong.passed()) << "the bug is not noticed";
    return wrong;
  }

  // The same of a collective that goes wrong.
  Verification with_damage(const spec::Run& run, const std::string& over, const collective::Damage& damage) {
    const Program program = plan::compile(run);
    const Verification right = verified(run, program);
    EXPECT_TRUE(right.passed()) << to_text(right);
    Verification wrong = verified(run, program, Damaged{set_named(over, program.tables), damage});
    EXPECT_FALSE(wrong.passed()) << "the bug is not noticed";
    return wrong;
  }

  References references_;
  std::string complaints_;  // of the checker, about the program with the bug
};

const Comparison& of(const Verification& verification, const std::string& what) {
  const auto found = std::ranges::find(verification.comparisons, what, &Comparison::what);
  TESSERA_CHECK(found != verification.comparisons.end(), "nothing is called ", what);
  return *found;
}

// Gradients and the loss are right: only the norm is not, and so what is clipped by it.
void expect_only_the_norm_is_wrong(const Verification& verification) {
  EXPECT_THAT(verification.fault, HasSubstr("norm of step 1"));
  for (const auto& c : verification.comparisons) {
    const bool is_before_it = c.kind == "gradient" || c.what == "loss of step 1";
    EXPECT_TRUE(!is_before_it || c.zero_in_theory || c.error <= verification.tolerance) << c.what;
  }
}

TEST_F(KnownBugs, Row01_LossIsDividedByTpOnceMoreWithContextParallelism) {
  const auto found = with_bug(run_with({.cp = 2, .tp = 2}),
                              [](Program& program) { sum_once_more(Role::tokens, "tp", program); });
  EXPECT_THAT(found.fault, HasSubstr("0.5000 of it"));
  EXPECT_THAT(complaints_, HasSubstr("where all ranks hold the same Number(tokens)"));
}

// The backward divides by what its own rank counts. The report divides by the same number, so that it is seen
// in the loss already.
TEST_F(KnownBugs, Row02_GradientsOfAPipelineAreNotDividedAsTheLossIs) {
  const auto found = with_bug(run_with({.pp = 2, .dp_replicate = 2}), [](Program& program) {
    auto& tables = program.tables;
    const auto own = static_cast<std::uint32_t>(tables.numbers.size());
    tables.numbers.push_back({"own tokens", Role::tokens, {}});
    for (auto& segment : tables.segments)
      for (auto& loss : segment.losses) loss.tokens = own;
    for (auto& sequence : program.classes)
      sequence.ops.insert(sequence.ops.begin(), Op{.what = OpKind::sum, .item = own});
    rebuild_waits(program);
  });
  EXPECT_GT(of(found, "loss of step 1").error, found.tolerance);
  EXPECT_GT(
      std::ranges::count_if(found.comparisons,
                            [&](const auto& c) { return c.kind == "gradient" && c.error > found.tolerance; }),
      0);
}

TEST_F(KnownBugs, Row03_RanksWithUnequalTokensWeighAlike) {
  const auto found = with_bug(run_with({.dp_replicate = 2, .cp = 2}), [](Program& program) {
    const std::uint32_t tokens = number_of(Role::tokens, program.tables);
    for (auto& op : program.classes.front().ops)
      if (op.what == OpKind::sum && op.item == tokens) op.along = -1, op.lane = program::kCompute;
    rebuild_waits(program);
  });
  EXPECT_FALSE(of(found, "model.norm.weight").ratio) << "no factor of all of it, but one of each rank";
  EXPECT_THAT(complaints_, HasSubstr("stays partial over dp_replicate"));
}

// Nothing scales what a group of one reduces, micro-batch by micro-batch, unless another group does it.
TEST_F(KnownBugs, Row06_GradientsAreScaledAlthoughTheGroupToReduceOverHasOneMember) {
  const spec::Run run = run_with({.tp = 2, .sequence_parallel = false, .zero = 2});
  const Program program = plan::compile(run);
  const std::int16_t alone = set_named("shard.gradients", program.tables);
  ASSERT_EQ(program.tables.size_of(alone), 1);
  ASSERT_GT(program.tables.num_micro, 2);
  for (const auto harm : {collective::Harm::scaled, collective::Harm::twice})
    for (const auto kind : {collective::CallKind::reduce_scatter, collective::CallKind::all_reduce})
      EXPECT_TRUE(verified(run, program, Damaged{alone, {harm, kind}}).passed());
  const auto found = with_bug(run, [](Program& changed) {
    const std::uint32_t vectors = item_named("vectors", changed.tables);
    for (auto& op : changed.classes.front().ops)
      if (op.what == OpKind::reduce && op.item == vectors)
        op.along = set_named("tp", changed.tables), op.lane = program::kCompute;
    rebuild_waits(changed);
  });
  EXPECT_THAT(found.fault, HasSubstr("norm.weight (gradient)"));
  EXPECT_THAT(found.fault, HasSubstr("2.0000 of it"));
  EXPECT_THAT(complaints_, HasSubstr("runs over tp"));
}

TEST_F(KnownBugs, Row07_GradientsOfNormWeightsAreNotSummedOverTpUnderSequenceParallelism) {
  for (const std::int64_t zero : {0, 1}) {
    const auto found = with_bug(run_with({.dp_shard = 2, .tp = 2, .zero = zero}), [&](Program& program) {
      auto& bucket = bucket_named("vectors", program.tables);
      const std::int16_t with_tp = zero == 0 ? bucket.reduced_over : bucket.shared_over;
      const std::int16_t without = zero == 0 ? set_named("dp", program.tables) : std::int16_t{-1};
      (zero == 0 ? bucket.reduced_over : bucket.shared_over) = without;
      const std::uint32_t item = item_named("vectors", program.tables);
      for (auto& sequence : program.classes)
        for (auto& op : sequence.ops)
          if (op.what == OpKind::reduce && op.item == item && op.along == with_tp)
            op.along = without, op.lane = without < 0 ? program::kCompute : program::communication(without);
      rebuild_waits(program);
    });
    EXPECT_THAT(found.fault, HasSubstr("norm.weight")) << "zero " << zero;
  }
}

TEST_F(KnownBugs, Row08_TheNormLeavesOutPartsOfParametersThatAreCut) {
  for (const std::string name : {"block.0", "block.0.keys"}) {
    const auto found = with_bug(run_with({.tp = 4}), [&](Program& program) {
      auto& bucket = bucket_named(name, program.tables);
      placement_on("tp_kv", bucket, program.tables) = program::Placement::invariant;
    });
    expect_only_the_norm_is_wrong(found);
    EXPECT_LT(*of(found, "norm of step 1").ratio, 1) << name;
  }
}

TEST_F(KnownBugs, Row09_TheNormCountsATiedTableOnBothStages) {
  const auto found = with_bug(run_with({.pp = 2, .tp = 2}), [](Program& program) {
    auto& bucket = bucket_named("embedding", program.tables);
    std::erase_if(bucket.placement,
                  [&](const auto& on) { return on.axis == axis_named("pp", program.tables); });
  });
  expect_only_the_norm_is_wrong(found);
  EXPECT_GT(*of(found, "norm of step 1").ratio, 1);
}

TEST_F(KnownBugs, Row10_TheNormCountsReplicatedParametersOncePerReplica) {
  for (const bool sequence_parallel : {false, true}) {
    const auto found =
        with_bug(run_with({.tp = 2, .sequence_parallel = sequence_parallel}), [](Program& program) {
          auto& bucket = bucket_named("vectors", program.tables);
          placement_on("tp_kv", bucket, program.tables) = program::Placement::sharded;
        });
    expect_only_the_norm_is_wrong(found);
    EXPECT_GT(*of(found, "norm of step 1").ratio, 1);
  }
}

TEST_F(KnownBugs, Row12_TheLossIsScaledByTheSizeOfContextParallelism) {
  const auto found =
      with_bug(run_with({.cp = 2}), [](Program& program) { sum_once_more(Role::loss, "cp_ring", program); });
  EXPECT_THAT(found.fault, HasSubstr("loss of step 1"));
  EXPECT_THAT(found.fault, HasSubstr("2.0000 of it"));
  EXPECT_THAT(found.fault, HasSubstr("summed over cp_ring"));
  EXPECT_NE(complaints_, "");
}

// Its two stages are summed once more; or a half of a backward comes twice.
TEST_F(KnownBugs, Row17_ATiedTableIsCountedTwiceWhenTheBackwardIsSplit) {
  const auto run = run_with({.pp = 2, .tp = 2, .zero = 1, .schedule = "zb-h1"_schedule});
  const auto twice = [](Program& program, const auto& is_meant) {
    for (auto& sequence : program.classes) {
      const auto once = std::ranges::find_if(sequence.ops, is_meant);
      TESSERA_CHECK(once != sequence.ops.end(), "a class has no such op");
      sequence.ops.insert(once + 1, Op(*once));
    }
    rebuild_waits(program);
  };
  const auto found = with_bug(run, [&](Program& program) {
    const std::uint32_t table = item_named("embedding", program.tables);
    twice(program, [&](const Op& op) { return op.item == table && (op.flags & program::kOfShard) != 0; });
  });
  EXPECT_THAT(found.fault, HasSubstr("model.embed_tokens.weight (gradient)"));
  EXPECT_THAT(found.fault, HasSubstr("2.0000 of it"));
  EXPECT_NE(complaints_, "");
  Program halves_twice = plan::compile(run);
  twice(halves_twice, [](const Op& op) { return op.what == OpKind::backward_weight; });
  EXPECT_THAT(program::to_text(program::check(halves_twice)), HasSubstr("WeightWork"));
}

TEST_F(KnownBugs, Row18_ASplitBackwardRecomputesTwice) {
  const auto run =
      run_with({.pp = 2, .tp = 2, .schedule = "zb-h1"_schedule, .recompute = spec::Recompute::full});
  Program program = plan::compile(run);
  EXPECT_EQ(program::to_text(program::check(program)), "");
  EXPECT_TRUE(verified(run, program).passed());
  auto& ops = program.classes.front().ops;
  const auto recompute = std::ranges::find(ops, OpKind::recompute, &Op::what);
  ASSERT_NE(recompute, ops.end());
  const Op again = *recompute;
  const auto half = std::ranges::find_if(ops, [&](const Op& op) {
    return op.what == OpKind::backward_weight && op.item == again.item && op.micro == again.micro;
  });
  ASSERT_NE(half, ops.end());
  ops.insert(half, again);
  rebuild_waits(program);
  EXPECT_NE(program::to_text(program::check(program)), "");
}

// A sum whose derivative is the identity although gradients are partial there.
TEST_F(KnownBugs, Row21_ASumIsLeftOutOfTheBackward) {
  using collective::CallDirection;
  const auto found = with_damage(run_with({.tp = 2, .sequence_parallel = false}), "tp",
                                 {.harm = collective::Harm::skipped,
                                  .kind = collective::CallKind::all_reduce,
                                  .direction = CallDirection::backward});
  EXPECT_LE(of(found, "loss of step 1").error, found.tolerance);
  EXPECT_THAT(found.fault, HasSubstr("(gradient)"));
}

// Queries are cut over kv and then rep, keys over kv: in the other order they would not belong together.
TEST_F(KnownBugs, Row22_PartsOfADimensionAreTakenInAnotherOrderOfAxes) {
  const auto found = with_bug(run_with({.tp = 4}), [](Program& program) {
    for (auto& set : program.tables.axis_sets)
      if (set.name == "tp") std::ranges::reverse(set.axes);
  });
  EXPECT_THAT(found.fault, HasSubstr("loss of step 1"));
}

// The same with experts, and a loss that balances them.
spec::Run expert_run_with(const spec::Layout& layout, spec::Balance balance = spec::Balance::none) {
  spec::Run run = with_experts(run_with(layout), 4);
  run.model.balance = balance;
  return run;
}

// The gradient of a bucket is summed over another set.
void reduce_over(const std::string& set, const std::string& bucket, Program& program) {
  const std::int16_t over = set_named(set, program.tables);
  const std::uint32_t item = item_named(bucket, program.tables);
  bucket_named(bucket, program.tables).reduced_over = over;
  for (auto& sequence : program.classes)
    for (auto& op : sequence.ops)
      if (op.what == OpKind::reduce && op.item == item)
        op.along = over, op.lane = program::communication(over);
  rebuild_waits(program);
}

TEST_F(KnownBugs, Row04_GradientsOfExpertsAreSummedOverAllDataParallelRanks) {
  const auto found = with_bug(expert_run_with({.dp_shard = 2, .ep = 2}),
                              [](Program& program) { reduce_over("dp", "block.0.experts", program); });
  EXPECT_THAT(found.fault, HasSubstr("mlp.experts"));
  EXPECT_NE(complaints_, "");
}

TEST_F(KnownBugs, Row05_GradientsOfSlicesAreSummedOverTheWrongGroupWhenEpIsOne) {
  const auto found = with_bug(expert_run_with({.dp_shard = 2, .tp = 2, .ep = 1, .etp = 2}),
                              [](Program& program) { reduce_over("dp+tp", "block.0.experts", program); });
  EXPECT_THAT(found.fault, HasSubstr("mlp.experts"));
  EXPECT_NE(complaints_, "");
}

TEST_F(KnownBugs, Row08_TheNormLeavesOutExperts) {
  const auto found = with_bug(expert_run_with({.dp_shard = 2, .ep = 2}), [](Program& program) {
    placement_on("dp_shard", bucket_named("block.0.experts", program.tables), program.tables) =
        program::Placement::invariant;
  });
  expect_only_the_norm_is_wrong(found);
  EXPECT_LT(*of(found, "norm of step 1").ratio, 1);
}

// Each rank counts the choices of its own part of a sequence.
TEST_F(KnownBugs, Row11_TheBalanceLossIsThatOfPartsOfSequences) {
  for (const spec::Layout& layout : {spec::Layout{.cp = 2}, spec::Layout{.tp = 2}}) {
    const auto found = with_damage(expert_run_with(layout, spec::Balance::sequence), "cp+tp",
                                   {.harm = collective::Harm::skipped});
    EXPECT_THAT(found.fault, HasSubstr("(gradient)"));
  }
}

TEST_F(KnownBugs, Row13_TheBalanceLossIsDividedByWhatOneRankCounts) {
  const auto run = expert_run_with({.dp_shard = 2}, spec::Balance::sequence);
  const auto found = with_bug(run, [](Program& program) {
    const std::uint32_t positions = number_of(Role::positions, program.tables);
    for (auto& op : program.classes.front().ops)
      if (op.what == OpKind::sum && op.item == positions) op.along = -1, op.lane = program::kCompute;
    rebuild_waits(program);
  });
  EXPECT_LE(of(found, "loss of step 1").error, found.tolerance);
  EXPECT_THAT(complaints_, HasSubstr("stays partial over"));
}

TEST_F(KnownBugs, Row25_LoadsAreThoseOfOneRankOfTp) {
  const auto run = expert_run_with({.tp = 2}, spec::Balance::bias);
  const auto found = with_bug(run, [](Program& program) { reduce_over("dp", "vectors.balance", program); });
  EXPECT_THAT(to_text(found), HasSubstr("e_score_correction_bias"));
  EXPECT_NE(complaints_, "");
}

// The balance loss of each stage is divided by the positions of all of them: by as many as there are stages
// too many, and its gradients are too small by that; or it flows from one stage alone.
TEST_F(KnownBugs, Row26_LossesInsideOfStagesFlowWrongly) {
  const auto run = expert_run_with({.pp = 2}, spec::Balance::sequence);
  const auto found = with_bug(run, [](Program& program) { sum_once_more(Role::positions, "pp", program); });
  EXPECT_THAT(found.fault, HasSubstr("(gradient)"));
  EXPECT_NE(complaints_, "");
}

// tp shares the experts here: what sees other tokens is dp_shard.
TEST_F(KnownBugs, Row27_ExpertsAreSummedOverTheAxesOfDenseWeightsWhenEpMeetsTp) {
  const auto found = with_bug(expert_run_with({.dp_shard = 2, .tp = 2, .ep = 2}),
                              [](Program& program) { reduce_over("dp+tp", "block.0.experts", program); });
  EXPECT_THAT(found.fault, HasSubstr("mlp.experts"));
  EXPECT_NE(complaints_, "");
}

}  // namespace
}  // namespace tessera::train
