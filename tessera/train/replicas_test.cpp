// Replicas that make steps by themselves: where theory says so they are synchronous data parallelism, their
// bytes fall with the number of local steps, and they go on from what they save. About 3 s.
#include "tessera/train/replicas.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/testing/one_in.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/train/loop.hpp"
#include "tessera/train/testing/apart.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

spec::Run apart(spec::Layout layout, std::int64_t local_steps) {
  spec::Run run = small_run(1);
  layout.micro_batch = 1;
  layout.precision = spec::Precision::fp64;
  run.layout = layout;
  run.training.steps = 8;
  run.training.global_batch = 12;
  run.training.clip_norm = 0;
  run.training.optimizer = spec::Optimizer::sgd;
  run.training.learning_rate = 0.3;
  run.training.local_steps = local_steps;
  return run;
}

// With equal shares, plain SGD and no clipping the mean of the weights is the step with the mean gradient.
TEST(Replicas, OfOneLocalStepAreSynchronous) {
  OneIn takes(3);
  for (const spec::Layout& layout :
       {spec::Layout{.dp_replicate = 1}, spec::Layout{.dp_replicate = 3},
        spec::Layout{.pp = 2, .dp_replicate = 2, .tp = 2},
        spec::Layout{.dp_replicate = 2, .dp_shard = 3, .zero = 3},
        spec::Layout{.dp_replicate = 2, .cp = 2, .recompute = spec::Recompute::full}})
    for (const bool is_tied : {false, true}) {
      if (!takes()) continue;
      spec::Run run = apart(layout, 1);
      run.model.tied_embeddings = is_tied;
      const auto found = train_apart(run, random_source(run.model)).losses;
      run.training.local_steps = 0;
      const auto expected = losses(run, static_cast<int>(run.training.steps));
      const auto replicas = static_cast<std::size_t>(layout.dp_replicate);
      for (std::size_t step = 0; step < expected.size(); ++step) {
        double mean = 0;
        for (std::size_t replica = 0; replica < replicas; ++replica)
          mean += found[step * replicas + replica] / static_cast<double>(replicas);
        EXPECT_NEAR(mean, expected[step], 1e-10 * expected[step])
            << spec::shares_text(layout) << ", step " << step;
      }
    }
}

TEST(Replicas, OfMoreLocalStepsAreNotSynchronous) {
  spec::Run run = apart({.dp_replicate = 2}, 4);
  const auto found = train_apart(run, random_source(run.model)).losses;
  run.training.local_steps = 0;
  const auto expected = losses(run, 8);
  EXPECT_GT(std::abs((found[14] + found[15]) / 2 - expected[7]), 1e-6 * expected[7]);
}

TEST(Replicas, ExchangeLessByTheNumberOfLocalSteps) {
  const auto bytes = [](std::int64_t local_steps) {
    const spec::Run run = apart({.dp_replicate = 2, .dp_shard = 2, .zero = 1}, local_steps);
    return train_apart(run, random_source(run.model)).exchanged_bytes;
  };
  const std::int64_t every_step = bytes(1);
  EXPECT_EQ(every_step, 2 * bytes(2));
  EXPECT_EQ(every_step, 8 * bytes(8));
  std::int64_t elements = 0;  // of the slices of one rank
  const spec::Run run = apart({.dp_replicate = 2, .dp_shard = 2, .zero = 1}, 8);
  train_apart(run, random_source(run.model), [&](const Replicas& replicas, Session& session) {
    if (!replicas.is_first() || replicas.communicator().rank() > 0) return;
    for (auto& bucket : session.buckets()) elements += bucket.shard_elements();
  });
  EXPECT_EQ(every_step, 8 * 8 * elements);
}

TEST(Replicas, AreEqualAfterAnExchangeAndNotBefore) {
  const auto weights_after = [](std::int64_t steps, bool at_the_end) {
    spec::Run run = apart({.dp_replicate = 2}, 3);
    run.training.steps = steps;
    run.training.optimizer = spec::Optimizer::adamw;
    std::vector<tensor::Tensor> out(2);
    collective::run_ranks(2, [&](const collective::Communicator& all) {
      Replicas replicas(run, all);
      Session session(session_plan(replicas.run()), replicas.communicator(),
                      replicas.source(random_source(run.model)));
      replicas.begin(session);
      for (std::int64_t step = 1; step <= steps; ++step) session.step();
      if (at_the_end) replicas.exchange(steps, true);
      out[static_cast<std::size_t>(all.rank())] = session.buckets()[0].shard().clone();
    });
    return out[0].sub(out[1]).abs().max().item<double>() == 0;
  };
  EXPECT_FALSE(weights_after(3, false));
  EXPECT_TRUE(weights_after(3, true));
}

class ReplicasSaved : public ::testing::Test {
 protected:
  ReplicasSaved() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream text(folder_ + "/text");
    for (int i = 0; i < 4000; ++i) text << "And it came to pass in the day " << i * i << " ";
  }
  ~ReplicasSaved() override { std::filesystem::remove_all(folder_); }

  // Of its last step.
  double trained(spec::Run run, std::int64_t steps, const std::string& name) const {
    run.training.steps = steps;
    run.training.decay = spec::Decay::constant;
    run.data.path = folder_ + "/text";
    run.model.vocab = 256;
    double out = 0;
    collective::run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& all) {
      const auto summary = train(run, all,
                                 {.name = "small",
                                  .folder = folder_ + "/" + name,
                                  .trace = "",
                                  .checkpoints = folder_ + "/" + name + "/checkpoints",
                                  .lines = false});
      if (all.rank() == 0) out = summary.last_loss;
    });
    return out;
  }

  std::string folder_ = cat(::testing::TempDir(), "replicas-", ::getpid());
};

// SGD keeps no state inside, so nothing is lost of the other replicas.
TEST_F(ReplicasSaved, GoOnBitForBitWithTheOuterMomentum) {
  for (const spec::Layout& layout :
       {spec::Layout{.dp_replicate = 2}, spec::Layout{.pp = 2, .dp_replicate = 2, .tp = 2}}) {
    spec::Run run = apart(layout, 3);
    run.training.outer_optimizer = spec::OuterOptimizer::nesterov;
    run.training.outer_delay = 2;
    run.checkpoint.every = 6;  // an exchange that waits, also in the run that does not stop there
    std::filesystem::remove_all(folder_ + "/a");
    std::filesystem::remove_all(folder_ + "/b");
    trained(run, 6, "a");
    EXPECT_EQ(trained(run, 12, "a"), trained(run, 12, "b"));
  }
}

TEST_F(ReplicasSaved, GoOnAsAnyOtherLayout) {
  spec::Run run = apart({.dp_replicate = 2}, 3);
  run.training.optimizer = spec::Optimizer::adamw;
  const double first = trained(run, 6, "a");
  run.layout.dp_replicate = 3;
  EXPECT_LT(trained(run, 9, "a"), first);
  run.training.local_steps = 0;
  run.layout = {.pp = 2, .dp_shard = 2, .zero = 1, .precision = spec::Precision::fp64};
  EXPECT_LT(trained(run, 12, "a"), first);
}

}  // namespace
}  // namespace tessera::train
