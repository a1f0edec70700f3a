// Checkpoints of real sessions: what one layout writes, another reads, and training goes on as if nothing had
// happened.
#include "tessera/train/saved.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/complaint.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/train/testing/saving_runs.hpp"

namespace tessera::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Saved = SavingRuns;
using SavedCompression = SavingRuns;

spec::Run run_of(std::int64_t pp, std::int64_t replicate, std::int64_t shard, std::int64_t zero) {
  spec::Run run = small_run(replicate);
  run.layout.precision = spec::Precision::fp64;
  run.layout.pp = pp;
  run.layout.dp_shard = shard;
  run.layout.zero = zero;
  run.layout.micro_batch = 1;
  return run;
}

TEST_F(Saved, EqualLayoutsGoOnBitForBit) {
  for (const auto precision : {spec::Precision::fp32, spec::Precision::bf16, spec::Precision::fp16}) {
    spec::Run run = run_of(2, 1, 2, 1);
    run.layout.precision = precision;
    run.training.loss_scale_growth_steps = 2;
    run.model.tied_embeddings = true;
    run.model.dropout = 0.1;
    expect_goes_on(run, run, 0);
  }
}

TEST_F(Saved, OtherLayoutsGoOnWithinRounding) {
  expect_goes_on(run_of(1, 1, 1, 0), run_of(2, 1, 2, 3), 1e-10);
  expect_goes_on(run_of(2, 2, 2, 2), run_of(1, 1, 3, 1), 1e-10);
  spec::Run tied = run_of(2, 2, 1, 0), other = run_of(3, 1, 2, 1);
  tied.model.tied_embeddings = other.model.tied_embeddings = true;
  expect_goes_on(tied, other, 1e-10);
}

TEST_F(Saved, DelayedWeightsGoOnWithThoseOfTheStepBefore) {
  spec::Run run = run_of(2, 1, 1, 0);
  run.layout.schedule = "pipedream-2bw"_schedule;
  spec::Run sharded = run_of(2, 1, 2, 1);
  sharded.layout.schedule = "pipedream-2bw"_schedule;
  expect_goes_on(run, sharded, 1e-10);
  expect_goes_on(sharded, run, 1e-10);
}

TEST_F(Saved, OffloadedStateIsWrittenAndReadWhereItLies) {
  spec::Run run = run_of(1, 1, 2, 3);
  run.layout.offload = "optimizer, parameters";
  expect_goes_on(run, run_of(1, 2, 1, 0), 1e-10);
  expect_goes_on(run_of(1, 2, 1, 0), run, 1e-10);
}

TEST_F(Saved, OptimizersWithOneStateOrNone) {
  for (const double momentum : {0.0, 0.9}) {
    spec::Run a = run_of(2, 1, 1, 0), b = run_of(1, 1, 2, 2);
    for (auto* run : {&a, &b}) {
      run->training.optimizer = spec::Optimizer::sgd;
      run->training.momentum = momentum;
    }
    expect_goes_on(a, b, 1e-10);
  }
}

TEST_F(Saved, ReplicasShareTheWorkEqually) {
  const spec::Run run = run_of(1, 4, 1, 0);
  go_on(run, 1);
  const auto manifest = checkpoint::Checkpoint(checkpoint::step_folder(folder_, 1).path).manifest();
  std::map<std::uint32_t, double> bytes;
  double all = 0;
  for (const auto& piece : manifest.pieces) {
    const auto size = static_cast<double>(checkpoint::bytes_of(piece, manifest.tensors.at(piece.tensor)));
    bytes[piece.file] += size;
    all += size;
  }
  EXPECT_EQ(manifest.files.size(), 4u);  // cut between rows: no rank has two boxes of a tensor
  for (const auto& [file, size] : bytes) EXPECT_NEAR(size / all, 0.25, 0.02) << manifest.files[file].name;
}

TEST_F(Saved, ASnapshotIsNotTouchedWhenParametersChangeAtOnce) {
  const spec::Run run = run_of(1, 1, 1, 0);
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run), alone, random_source(run.model));
    session.step();
    Snapshot snapshot;
    snapshot.take(session);
    std::vector<tensor::Tensor> before;
    for (const auto& bucket : session.buckets())
      for (const Kept& kept : session.kept(bucket)) {
        before.push_back(kept.flat.clone());
        tensor::Tensor(kept.flat).fill_(7);
      }
    const checkpoint::Save save{folder_, 1, 5};
    checkpoint::begin_save(save);
    checkpoint::Manifest part{.progress = session.progress()};
    snapshot.write(checkpoint::saving_path(save), 0, part);
    checkpoint::write_part(checkpoint::saving_path(save), 0, part);
    checkpoint::commit_save(save, 1);
    checkpoint::Checkpoint saved(checkpoint::step_folder(folder_, 1).path);
    restore(session, saved);
    auto expected = before.begin();
    for (const auto& bucket : session.buckets())
      for (const Kept& kept : session.kept(bucket)) {
        const tensor::Tensor& old = *expected++;
        for (const auto& parameter : bucket.table().parameters)
          EXPECT_TRUE(tensor::bit_equal(shard::parameter_in(kept.flat, parameter),
                                        shard::parameter_in(old, parameter)))
              << kept.prefix << parameter.name;
      }
  });
}

TEST_F(Saved, ADamagedCheckpointIsNotUsedAndItSaysSo) {
  const spec::Run run = run_of(1, 2, 1, 0);
  go_on(run, 1);
  go_on(run, 1);
  const std::string newest = checkpoint::step_folder(folder_, 2).path;
  std::filesystem::resize_file(newest + "/rank-00001.safetensors.hashes", 1);
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    Session session(session_plan(run), communicator, random_source(run.model));
    const Resumed resumed = resume(session, run, {.folder = folder_, .rank = communicator.rank()});
    EXPECT_EQ(resumed.step, 1);
    EXPECT_THAT(resumed.notes, ElementsAre(HasSubstr("step-00000002 is not used: '" + newest +
                                                     "/rank-00001.safetensors.hashes'"),
                                           HasSubstr("going on after step 1")));
  });
}

TEST_F(Saved, WhatDoesNotFitIsRefusedWithWhatToDo) {
  go_on(run_of(1, 1, 1, 0), 1);
  const auto complaint = [&](const spec::Run& run, const std::string& from = "") {
    return complaint_of([&] {
      collective::run_ranks(1, [&](const collective::Communicator& alone) {
        Session session(session_plan(run), alone, random_source(run.model));
        resume(session, run, {.folder = folder_, .from = from, .saves = true});
      });
    });
  };
  spec::Run run = run_of(1, 1, 1, 0);
  EXPECT_EQ(complaint(run), "");
  run.training.optimizer = spec::Optimizer::sgd;
  run.training.momentum = 0.5;
  EXPECT_THAT(complaint(run), HasSubstr("holds the state of adamw"));
  // Without the run file that a checkpoint holds, as in an import, its tensors tell.
  const std::string path = checkpoint::step_folder(folder_, 1).path;
  for (const bool has_run_file : {true, false}) {
    auto manifest = checkpoint::Checkpoint(path).manifest();
    if (!has_run_file) manifest.config.clear();
    std::ofstream(path + "/manifest.json") << checkpoint::to_text(manifest);
    run = run_of(1, 1, 1, 0);
    run.model.ffn = 56;
    EXPECT_THAT(complaint(run), HasSubstr(has_run_file ? "model.ffn = 56, the checkpoint has 48"
                                                       : "as 48 x 32, the model of this run as 56 x 32"));
    run = run_of(1, 1, 1, 0);
    run.model.layers = 3;
    EXPECT_THAT(complaint(run), HasSubstr(has_run_file ? "model.layers = 3, the checkpoint has 2"
                                                       : "has no model.layers.2."));
    run.model.layers = 1;
    EXPECT_THAT(complaint(run), HasSubstr(has_run_file ? "model.layers = 1, the checkpoint has 2"
                                                       : "which the model of this run has not"));
  }
  run = run_of(1, 1, 1, 0);
  run.training.seed = 5;
  EXPECT_THAT(complaint(run), HasSubstr("Write training.seed = 1"));
  run.training.seed = 1;
  EXPECT_THAT(complaint(run, "none"), HasSubstr("holds checkpoints of later steps"));
  EXPECT_THAT(complaint(run, "/no/such/folder"), HasSubstr("there is no checkpoint"));
}

// What thin sums left out, and what the next one begins with, lie with the weights.
TEST_F(SavedCompression, GoesOnInAnotherLayout) {
  const auto thin = [](spec::Layout layout) {
    spec::Run run = small_run(1);
    layout.micro_batch = 2;
    layout.precision = spec::Precision::fp64;
    layout.compress_gradients = spec::Compression::powersgd;
    run.layout = layout;
    run.training.optimizer = spec::Optimizer::sgd;
    run.training.momentum = 0.9;
    return run;
  };
  const spec::Run replicated = thin({.dp_replicate = 2}), sharded = thin({.dp_shard = 4, .zero = 1}),
                  staged = thin({.pp = 2, .dp_replicate = 2}), alone = thin({});
  expect_goes_on(replicated, replicated, 1e-11);
  expect_goes_on(replicated, sharded, 1e-11);
  expect_goes_on(sharded, staged, 1e-11);
  expect_goes_on(staged, alone, 1e-11);
  expect_goes_on(alone, replicated, 1e-11);
}

}  // namespace
}  // namespace tessera::train
