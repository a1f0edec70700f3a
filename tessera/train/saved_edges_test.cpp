// Rare cases of saving and going on: ranks without elements, steps that were not taken, weights one update
// behind, other precisions, weights alone, damage that is newer than what is saved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/complaint.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/tools/reshard.hpp"
#include "tessera/train/testing/saving_runs.hpp"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;

using SavedEdges = SavingRuns;

spec::Run fp64_run(std::int64_t pp, std::int64_t shard, std::int64_t zero) {
  spec::Run run = small_run(1);
  run.layout.precision = spec::Precision::fp64;
  run.layout.pp = pp;
  run.layout.dp_shard = shard;
  run.layout.zero = zero;
  run.layout.micro_batch = 1;
  return run;
}

TEST_F(SavedEdges, RanksWithoutElementsOfABucketBringNothing) {
  spec::Run one = fp64_run(1, 1, 0);
  one.model = {.layers = 1, .hidden = 2, .heads = 1, .kv_heads = 1, .ffn = 1, .vocab = 3, .sequence = 4};
  for (const std::int64_t zero : {1, 2, 3})
    for (const bool tied : {false, true}) {
      spec::Run many = one;
      many.layout.dp_shard = 8;
      many.layout.zero = zero;
      one.model.tied_embeddings = many.model.tied_embeddings = tied;
      expect_goes_on(many, one, 1e-10);
      expect_goes_on(one, many, 1e-10);
    }
}

TEST_F(SavedEdges, MoreReplicasThanRowsShareWhatThereIs) {
  spec::Run one = fp64_run(1, 1, 0);
  one.model = {.layers = 1, .hidden = 2, .heads = 1, .kv_heads = 1, .ffn = 1, .vocab = 3, .sequence = 4};
  spec::Run many = one;
  many.layout.dp_replicate = 8;
  expect_goes_on(many, one, 1e-10);
}

TEST_F(SavedEdges, ARunWhoseFirstStepsOverflowGoesOnBitForBit) {
  spec::Run run = small_run(2);
  run.layout.precision = spec::Precision::fp16;
  run.training.loss_scale_start = 4294967296;
  expect_goes_on(run, run, 0);
  const auto progress = checkpoint::Checkpoint(checkpoint::step_folder(folder_, 6).path).manifest().progress;
  EXPECT_EQ(progress.step, 6);
  EXPECT_LT(progress.updates, 6) << "no step overflowed";
  EXPECT_EQ(progress.loss_scale, 4294967296 / std::exp2(6 - progress.updates));
}

TEST_F(SavedEdges, DelayedWeightsGoOnBitForBitIn16BitsAndTied) {
  for (const auto precision : {spec::Precision::fp32, spec::Precision::bf16})
    for (const std::int64_t zero : {0, 1}) {
      spec::Run run = fp64_run(2, 2, zero);
      run.layout.precision = precision;
      run.layout.schedule = "pipedream-2bw"_schedule;
      run.model.tied_embeddings = true;
      expect_goes_on(run, run, 0);
    }
}

// The older weights are left alone; what follows is a run of its own.
TEST_F(SavedEdges, DelayedAndPlainSchedulesReadEachOther) {
  spec::Run delayed = fp64_run(2, 1, 0);
  delayed.layout.schedule = "pipedream-2bw"_schedule;
  const spec::Run plain = fp64_run(2, 1, 0);
  go_on(delayed, 3);
  for (const double loss : go_on(plain, 2)) EXPECT_TRUE(std::isfinite(loss));
  for (const double loss : go_on(delayed, 2)) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_TRUE(checkpoint::Checkpoint(checkpoint::step_folder(folder_, 7).path).problems().empty());
}

TEST_F(SavedEdges, OtherPrecisionsGoOnWithinTheirRounding) {
  spec::Run run = fp64_run(1, 2, 1);
  go_on(run, 3);
  const auto expected = losses(run, 4).back();
  for (const auto precision : {spec::Precision::fp32, spec::Precision::bf16, spec::Precision::fp16}) {
    spec::Run other = run;
    other.layout.precision = precision;
    const double found = go_on(other, 1, checkpoint::step_folder(folder_, 3).path).front();
    EXPECT_NEAR(found, expected, precision == spec::Precision::fp32 ? 1e-5 : 1e-2);
  }
}

TEST_F(SavedEdges, WeightsAloneAreWhereARunBegins) {
  const spec::Run run = fp64_run(1, 2, 1);
  go_on(run, 3);
  const std::string weights = folder_ + "/weights";
  {
    checkpoint::Checkpoint saved(checkpoint::step_folder(folder_, 3).path);
    checkpoint::reshard(saved, weights, {.num_ranks = 3, .parameters_only = true});
  }
  std::filesystem::remove_all(checkpoint::step_folder(folder_, 3).path);
  const auto found = go_on(run, 1, weights);
  EXPECT_LT(found.front(), losses(run, 1).front()) << "it has learnt something";
  EXPECT_EQ(checkpoint::step_folders(folder_).front().step, 1);
}

TEST_F(SavedEdges, ASeedOfAnotherRunIsRefusedWhateverTheOptimizerKeeps) {
  spec::Run run = fp64_run(1, 1, 0);
  run.training.optimizer = spec::Optimizer::sgd;
  run.training.momentum = 0;
  go_on(run, 3);
  run.training.seed = 5;
  EXPECT_THAT(complaint_of([&] { go_on(run, 1); }), HasSubstr("Write training.seed = 1"));
}

TEST_F(SavedEdges, WhatIsSavedAfterDamageToANewerOneIsKept) {
  spec::Run run = fp64_run(1, 1, 0);
  run.checkpoint.keep_last = 1;
  go_on(run, 3);
  std::filesystem::copy(checkpoint::step_folder(folder_, 3).path, checkpoint::step_folder(folder_, 9).path);
  std::filesystem::resize_file(checkpoint::step_folder(folder_, 9).path + "/manifest.json", 100);
  go_on(run, 2);
  EXPECT_TRUE(std::filesystem::exists(checkpoint::step_folder(folder_, 5).path + "/manifest.json"));
  EXPECT_FALSE(std::filesystem::exists(checkpoint::step_folder(folder_, 3).path));
}

}  // namespace
}  // namespace tessera::train
