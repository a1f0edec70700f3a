// Does ZeRO change where numbers lie, and nothing else?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tessera/base/text.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/train/testing/damaged.hpp"
#include "tessera/train/testing/equal.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using tensor::Tensor;

spec::Run zero_run(std::int64_t zero, std::int64_t dp_shard, std::int64_t dp_replicate = 1) {
  spec::Run run = small_run(dp_replicate);
  run.layout.dp_shard = dp_shard;
  run.layout.zero = zero;
  run.layout.micro_batch = 1;
  return run;
}

TEST(Zero, EveryStageIsEqualToOneDevice) {
  for (const std::int64_t zero : {0, 1, 2, 3})
    for (const std::int64_t shard : {1, 2, 3})
      expect_equal_to_one_device(zero_run(zero, shard), cat("zero ", zero, " dp ", shard));
}

TEST(Zero, AndReplicasOfShardsAreEqualToOneDevice) {
  for (const std::int64_t zero : {1, 2, 3})
    expect_equal_to_one_device(zero_run(zero, 2, 2), cat("zero ", zero));
}

TEST(Zero, AndPipelinesWithTiedTablesAreEqualToOneDevice) {
  for (const std::int64_t zero : {1, 3})
    for (const bool hybrid : {false, true}) {
      auto run = zero_run(zero, 2, hybrid ? 2 : 1);
      run.model.family = spec::Family::gpt2;
      run.model.kv_heads = run.model.heads;
      run.model.tied_embeddings = true;
      run.layout.pp = 2;
      expect_equal_to_one_device(run, cat("zero ", zero, hybrid ? " hybrid" : ""));
    }
}

TEST(Zero, WithFewReductionsKeptWeightsAndEmptyMicroBatchesIsEqualToOneDevice) {
  auto run = zero_run(3, 2);
  run.training.global_batch = 7;
  for (const std::int64_t every : {0, 1, 2}) {
    run.layout.reduce_every = every;
    run.layout.keep_mib = every;
    run.layout.prefetch = 2 * every;
    expect_equal_to_one_device(run, cat("reduced every ", every));
  }
}

TEST(Zero, AReductionThatIsLeftOutIsNoticed) {
  for (const std::int64_t zero : {1, 3}) {
    const auto run = zero_run(zero, 2);
    const Damaged damaged{
        plan::compile(run).tables.buckets.front().reduced_over,
        {.harm = collective::Harm::skipped, .kind = collective::CallKind::reduce_scatter, .only = 0}};
    EXPECT_FALSE(verify_on_threads(run, damaged).passed()) << "zero " << zero;
  }
}

// Of three steps, as rank 0 reports and holds them.
struct Trained {
  std::vector<double> losses, norms;
  std::vector<Tensor> parameters;
  BytesMoved moved;  // in the last step
};

Trained trained(const spec::Run& run) {
  Trained out;
  collective::run_ranks(
      static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
        Session session(session_plan(run), communicator, random_source(run.model));
        Trained mine;
        for (int step = 0; step < 3; ++step) {
          const auto report = session.step();
          mine.losses.push_back(report.loss);
          mine.norms.push_back(report.gradient_norm);
          mine.moved = report.moved;
        }
        for (const auto& bucket : session.buckets())
          mine.parameters.push_back(session.whole_of(bucket, session.shard_of(bucket)).clone());
        if (communicator.rank() == 0) out = std::move(mine);
      });
  return out;
}

void expect_same_bits(const Trained& a, const Trained& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    EXPECT_TRUE(tensor::bit_equal(a.parameters[i], b.parameters[i])) << what << ", bucket " << i;
}

TEST(Zero, StagesHaveTheSameBitsWhenGradientsAreReducedAlike) {
  for (const auto precision : {spec::Precision::fp32, spec::Precision::bf16})
    for (const std::int64_t shard : {2, 4}) {
      const auto run_of = [&](std::int64_t zero) {
        auto run = zero_run(zero, shard);
        run.layout.precision = precision;
        run.layout.reduce_every = 0;
        return run;
      };
      const auto plain = trained(run_of(0));
      for (const std::int64_t zero : {1, 2, 3})
        expect_same_bits(trained(run_of(zero)), plain, cat("zero ", zero, ", ", shard, " ranks"));
      // And so do the two that reduce each micro-batch.
      auto second = run_of(2), third = run_of(3);
      second.layout.reduce_every = third.layout.reduce_every = 1;
      expect_same_bits(trained(second), trained(third), cat("each micro-batch, ", shard, " ranks"));
    }
}

class Offloaded : public testing::TestWithParam<std::string> {};  // the folder; empty: host memory

TEST_P(Offloaded, StateShardsAndValuesHaveTheSameBitsAsInMemory) {
  if (!GetParam().empty()) std::filesystem::create_directories(GetParam());
  for (const auto precision : {spec::Precision::fp32, spec::Precision::bf16})
    for (const std::int64_t zero : {0, 1, 3}) {
      auto run = zero_run(zero, 2);
      run.layout.precision = precision;
      run.layout.recompute = spec::Recompute::full;
      const auto plain = trained(run);
      EXPECT_EQ(plain.moved.offloaded, 0);
      run.layout.offload = "optimizer,parameters,values";
      run.layout.offload_folder = GetParam();
      const auto outside = trained(run);
      expect_same_bits(outside, plain, cat("zero ", zero));
      EXPECT_GT(outside.moved.offloaded, 0);
      EXPECT_GE(outside.moved.fetched, outside.moved.offloaded) << "unchanged shards are not written";
    }
}

INSTANTIATE_TEST_SUITE_P(, Offloaded, testing::Values("", testing::TempDir() + "/tessera-offloaded"),
                         [](const auto& info) { return info.param.empty() ? "ToHostMemory" : "ToFiles"; });

// A shard that leaves only within the step: the copy outside is the one from before the update.
TEST(Zero, LookingAtTheModelBetweenStepsLeavesItsShardsAlone) {
  auto run = zero_run(1, 1);
  run.layout.precision = spec::Precision::bf16;
  auto program = plan::compile(run);
  auto& sequence = program.classes[0];
  const auto kind = static_cast<std::uint16_t>(program::CellKind::shard);
  const auto put = [&](program::OpKind before, std::size_t behind, program::OpKind what) {
    const auto at =
        std::ranges::find_if(sequence.ops, [&](const auto& op) { return op.what == before && op.item == 1; });
    sequence.ops.insert(at + static_cast<std::ptrdiff_t>(behind),
                        {.what = what, .lane = program::kCopy, .item = 1, .flags = kind});
  };
  put(program::OpKind::gather, 1, program::OpKind::offload);
  put(program::OpKind::step, 0, program::OpKind::fetch);
  program::build_waits(sequence, program.tables);
  ASSERT_EQ(program::to_text(program::check(program)), "");
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run, program), alone, random_source(run.model));
    session.step();
    const auto& bucket = session.buckets()[1];
    const Tensor before = session.shard_of(bucket).clone();
    model::Batch batch{.samples = 1};
    batch.tokens_T = tensor::zeros({run.model.sequence}, at::kLong);
    batch.targets_T = batch.tokens_T;
    session.logits(batch);
    EXPECT_TRUE(tensor::bit_equal(session.shard_of(bucket), before));
    EXPECT_FALSE(bucket.full().defined());
  });
}

// What the first scale makes of gradients does not fit into fp16.
TEST(Zero, StepsThatAreNotTakenLeaveWhatLiesOutsideAsItWas) {
  auto plain = zero_run(0, 2);
  plain.layout.precision = spec::Precision::fp16;
  plain.layout.recompute = spec::Recompute::full;
  plain.layout.reduce_every = 0;
  plain.training.loss_scale_start = 0x1p24;
  plain.training.clip_norm = 0.1;
  auto outside = plain;
  outside.layout.zero = 3;
  outside.layout.offload = "optimizer,parameters,values";
  const auto expected = trained(plain);
  EXPECT_FALSE(std::isfinite(expected.norms.front())) << "the first step was to be skipped";
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  const auto found = trained(outside);
  EXPECT_TRUE(std::ranges::equal(found.norms, expected.norms, same));
  for (std::size_t i = 0; i < found.parameters.size(); ++i)
    EXPECT_TRUE(tensor::bit_equal(found.parameters[i], expected.parameters[i])) << "bucket " << i;
}

TEST(Zero, WithOneMicroBatchAndMoreAskedThanThereIsIsEqualToOneDevice) {
  for (const std::int64_t zero : {2, 3}) {
    auto run = zero_run(zero, 3);
    run.model.family = spec::Family::gpt2;
    run.model.kv_heads = run.model.heads;
    run.model.tied_embeddings = true;
    run.training.global_batch = 2;  // one rank has nothing
    run.layout.pp = 2;
    run.layout.reduce_every = 9;
    run.layout.prefetch = 99;
    run.layout.keep_mib = zero == 3 ? 1 << 20 : 0;
    expect_equal_to_one_device(run, cat("zero ", zero));
  }
}

}  // namespace
}  // namespace tessera::train
