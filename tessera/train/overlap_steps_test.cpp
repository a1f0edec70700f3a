// Do steps that overlap compute what steps one after the other do, bit for bit? Layouts drawn from all
// schedules and stages of ZeRO, with clipping and without. About 20 s.
#include <gmock/gmock.h>

#include "tessera/spec/choice_names.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

constexpr int kOverlappingSteps = 5;
constexpr int kUntold = 2;  // this one is not told that another follows

struct TrainedAcross {
  std::vector<double> losses, norms;
  std::vector<std::vector<tensor::Tensor>> shards;  // by rank
};

TrainedAcross trained_across(const spec::Run& run) {
  TrainedAcross out;
  const auto ranks = static_cast<int>(run.layout.ranks());
  out.shards.resize(static_cast<std::size_t>(ranks));
  collective::run_ranks(ranks, [&](const collective::Communicator& communicator) {
    Session session(session_plan(run), communicator, random_source(run.model));
    std::vector<engine::StepReport> reports;
    for (int step = 0; step < kOverlappingSteps; ++step) {
      session.begin_step(step + 1 < kOverlappingSteps && step != kUntold);
      session.read_ahead(1);
      if (session.is_full()) reports.push_back(session.finish_step());
    }
    while (session.under_way() > 0) reports.push_back(session.finish_step());
    for (auto& bucket : session.buckets())
      out.shards[static_cast<std::size_t>(communicator.rank())].push_back(session.shard_of(bucket).clone());
    if (communicator.rank() != 0) return;
    for (const auto& report : reports) {
      EXPECT_TRUE(report.taken);
      out.losses.push_back(report.loss);
      out.norms.push_back(report.gradient_norm);
    }
  });
  return out;
}

// Overlapping in both orders of communication.
void expect_same_bits(spec::Run run) {
  SCOPED_TRACE(cat(spec::schedule_name(run.layout), " pp ", run.layout.pp, " dp ", run.layout.dp(), " zero ",
                   run.layout.zero, " tp ", run.layout.tp, " clip ", run.training.clip_norm, " offload ",
                   run.layout.offload));
  run.layout.overlap_steps = false;
  const TrainedAcross apart = trained_across(run);
  run.layout.overlap_steps = true;
  run.cluster.link_mbits = 100;  // so slow that reductions are put off
  for (const auto order : {spec::Communication::arrival, spec::Communication::priority}) {
    run.layout.communication = order;
    const TrainedAcross overlapping = trained_across(run);
    EXPECT_EQ(overlapping.losses, apart.losses);
    EXPECT_EQ(overlapping.norms, apart.norms);
    for (std::size_t rank = 0; rank < apart.shards.size(); ++rank)
      for (std::size_t i = 0; i < apart.shards[rank].size(); ++i)
        EXPECT_TRUE(tensor::bit_equal(overlapping.shards[rank][i], apart.shards[rank][i]))
            << "rank " << rank << ", bucket " << i << ", " << spec::word(order);
  }
}

TEST(OverlapSteps, AreBitEqualToStepsOneAfterTheOtherForEveryStageOfZero) {
  for (const std::int64_t zero : {0, 1, 2, 3})
    for (const double clip : {0.0, 0.5}) {
      spec::Run run = small_run(1);
      run.layout.dp_shard = zero > 0 ? 2 : 1;
      run.layout.dp_replicate = 2;
      run.layout.zero = zero;
      run.training.clip_norm = clip;
      expect_same_bits(run);
    }
}

TEST(OverlapSteps, AreBitEqualInPipelines) {
  for (const spec::Schedule schedule :
       {"gpipe"_schedule, "1f1b"_schedule, "zb-h1"_schedule, "zb-v"_schedule, "pipedream-2bw"_schedule}) {
    spec::Run run = small_run(1);
    run.model.layers = 4;
    run.layout = {.pp = 2, .dp_shard = 2, .zero = 1, .schedule = schedule};
    run.training.clip_norm = 0;
    expect_same_bits(run);
  }
}

// Weights of two versions: the first forwards of a step run in the one before.
TEST(OverlapSteps, AreBitEqualWherePipelinesDoNotRunDry) {
  spec::Run run = small_run(1);
  run.model.layers = 4;
  run.training.global_batch = 6;
  const auto schedule = "pipedream-2bw"_schedule;
  run.layout = {.pp = 4, .schedule = schedule};
  for (const double clip : {0.0, 0.5}) {
    run.training.clip_norm = clip;
    expect_same_bits(run);
  }
  run.layout = {.pp = 3, .dp_shard = 2, .zero = 1, .schedule = schedule, .recompute = spec::Recompute::full};
  expect_same_bits(run);
  run.layout = {.pp = 2, .tp = 2, .schedule = schedule};
  run.model.tied_embeddings = true;
  expect_same_bits(run);
  run.layout = {.pp = 2, .cp = 2, .schedule = schedule, .offload = "optimizer"};
  expect_same_bits(run);
}

TEST(OverlapSteps, AreBitEqualWithTensorParallelismOffloadAndTiedWeights) {
  spec::Run run = small_run(1);
  run.layout = {.dp_shard = 2, .tp = 2, .zero = 3, .micro_batch = 2};
  run.model.tied_embeddings = true;
  run.training.clip_norm = 0;
  expect_same_bits(run);
  run.layout.offload = "optimizer,parameters";
  expect_same_bits(run);
  run.layout = {.dp_replicate = 2, .tp = 2, .micro_batch = 2, .precision = spec::Precision::bf16};
  expect_same_bits(run);
}

}  // namespace
}  // namespace tessera::train
