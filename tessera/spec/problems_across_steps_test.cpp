#include <gtest/gtest.h>

#include "tessera/spec/problems.hpp"

namespace tessera::spec {
namespace {

TEST(ProblemsAcrossSteps, ServersHoldWhatNobodyElseDoes) {
  spec::Run run;
  run.layout.servers = 2;
  run.layout.dp_shard = 3;
  EXPECT_TRUE(problems(run).empty());
  EXPECT_EQ(run.layout.ranks(), 5);
  for (const auto change :
       {+[](spec::Run& r) { r.layout.zero = 1; }, +[](spec::Run& r) { r.layout.dp_replicate = 2; },
        +[](spec::Run& r) { r.layout.cp = 2; }, +[](spec::Run& r) { r.layout.offload = "optimizer"; },
        +[](spec::Run& r) { r.layout.schedule = "pipedream-2bw"_schedule; }}) {
    spec::Run other = run;
    change(other);
    EXPECT_EQ(problems(other).size(), 1u);
  }
}

TEST(ProblemsAcrossSteps, WorkersThatDontWaitHaveServersAndEvenShares) {
  spec::Run run;
  run.layout.servers = 2;
  run.layout.dp_shard = 4;
  run.layout.updates = spec::Updates::bounded;
  run.layout.staleness = 3;
  EXPECT_TRUE(problems(run).empty());
  for (const auto change :
       {+[](spec::Run& r) { r.layout.updates = spec::Updates::asynchronous; },
        +[](spec::Run& r) { r.layout.servers = 0, r.layout.zero = 1; },
        +[](spec::Run& r) { r.training.global_batch = 18; }, +[](spec::Run& r) { r.layout.overlap = false; },
        +[](spec::Run& r) { r.layout.overlap_steps = true; },
        +[](spec::Run& r) { r.layout.precision = spec::Precision::fp16; },
        +[](spec::Run& r) { r.layout.micro_batches_by_rank = "4,4,4,4"; },
        +[](spec::Run& r) { r.model.dropout = 0.1; }}) {
    spec::Run other = run;
    change(other);
    EXPECT_EQ(problems(other).size(), 1u);
  }
}

TEST(ProblemsAcrossSteps, ReplicasThatAreApartShareNothingButExchanges) {
  spec::Run run;
  run.training.local_steps = 5;
  run.training.outer_optimizer = spec::OuterOptimizer::nesterov;
  run.training.outer_delay = 4;
  run.layout.dp_replicate = 2;
  run.checkpoint.every = run.evaluation.every = 10;
  run.evaluation.path = "held-out";
  EXPECT_TRUE(problems(run).empty());
  for (const auto change :
       {+[](spec::Run& r) { r.training.outer_delay = 5; }, +[](spec::Run& r) { r.checkpoint.every = 12; },
        +[](spec::Run& r) { r.evaluation.every = 7; }, +[](spec::Run& r) { r.training.global_batch = 15; },
        +[](spec::Run& r) { r.layout.overlap_steps = true; }, +[](spec::Run& r) { r.model.dropout = 0.1; },
        +[](spec::Run& r) { r.layout.precision = spec::Precision::fp16; },
        +[](spec::Run& r) { r.layout.schedule = "pipedream-2bw"_schedule; }}) {
    spec::Run other = run;
    change(other);
    EXPECT_EQ(problems(other).size(), 1u);
  }
  spec::Run average = run;
  average.training.outer_optimizer = spec::OuterOptimizer::average;
  EXPECT_TRUE(problems(average).empty());
  average.training.outer_momentum = 0.5;
  EXPECT_EQ(problems(average).size(), 1u);
  spec::Run none;
  none.training.outer_delay = 1;
  EXPECT_EQ(problems(none).size(), 1u);
}

TEST(ProblemsAcrossSteps, WhatIsCompressedIsReducedAtOnce) {
  spec::Run run;
  run.layout.dp_replicate = 2;
  run.layout.compress_gradients = spec::Compression::powersgd;
  run.layout.compress_rank = 2;
  EXPECT_TRUE(problems(run).empty());
  for (const auto change :
       {+[](spec::Run& r) { r.layout.tp = 2; }, +[](spec::Run& r) { r.layout.compress_block = 32; },
        +[](spec::Run& r) { r.layout.compress_weights = spec::Compression::int8; },
        +[](spec::Run& r) { r.layout.zero = 1, r.layout.dp_shard = 2; },
        +[](spec::Run& r) { r.layout.schedule = "pipedream-2bw"_schedule; },
        +[](spec::Run& r) { r.layout.compress_gradients = spec::Compression::none; }}) {
    spec::Run other = run;
    change(other);
    EXPECT_EQ(problems(other).size(), 1u);
  }
  spec::Run weights;
  weights.layout.dp_shard = 2;
  weights.layout.zero = 3;
  weights.layout.compress_weights = spec::Compression::int8;
  EXPECT_TRUE(problems(weights).empty());
  weights.layout.compress_weights = spec::Compression::powersgd;
  EXPECT_EQ(problems(weights).size(), 1u);
}

}  // namespace
}  // namespace tessera::spec
