// Does fp16 train as it should? Loss scaling: what it saves, and that an overflow on one rank changes nothing
// anywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/text.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

using tensor::Tensor;

spec::Run fp16_run(spec::Family family, std::int64_t dp) {
  spec::Run run;
  run.model = {.family = family,
               .layers = 2,
               .hidden = 32,
               .heads = 4,
               .kv_heads = 4,
               .ffn = 48,
               .vocab = 61,
               .sequence = 12};
  run.training.global_batch = 8;
  run.training.warmup_steps = 2;
  run.layout.dp_replicate = dp;
  run.layout.micro_batch = 2;
  run.layout.precision = spec::Precision::fp16;
  return run;
}

class Fp16 : public testing::TestWithParam<spec::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, Fp16, testing::Values(spec::Family::llama, spec::Family::gpt2),
                         [](const auto& info) {
                           return info.param == spec::Family::llama ? "Llama" : "Gpt2";
                         });

TEST_P(Fp16, AnOverflowOnOneRankSkipsTheStepOnAllAndChangesNothingElse) {
  for (const std::int64_t dp : {2, 4}) {
    const auto run = fp16_run(GetParam(), dp);
    collective::run_ranks(static_cast<int>(dp), [&](const collective::Communicator& communicator) {
      std::vector<std::uint64_t> cursors;  // first sample of each step, on this rank
      bool first = true;
      const Source source = [&, random = random_source(run.model)](auto samples, auto tokens, auto targets,
                                                                   auto documents) {
        if (first && !samples.empty()) cursors.push_back(samples.front());
        first = false;
        random(samples, tokens, targets, documents);
      };
      Session session(session_plan(run), communicator, source);
      const auto step = [&] {
        first = true;
        return session.step();
      };
      EXPECT_TRUE(step().taken);
      const auto before = durable(session);
      // One weight of one rank is too large for fp16, though not for the fp32 it is kept in.
      Tensor weight = session.buckets()[1].shard().select(0, 0);
      const double saved = weight.item<double>();
      if (communicator.rank() == dp - 1) weight.fill_(1e6);
      const auto report = step();
      if (communicator.rank() == dp - 1) weight.fill_(saved);

      EXPECT_FALSE(report.taken) << "rank " << communicator.rank();
      EXPECT_EQ(report.loss_scale, 65536);
      EXPECT_EQ(session.loss_scale(), 32768) << "rank " << communicator.rank();
      EXPECT_EQ(session.updates(), 1);
      const auto after = durable(session);
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(tensor::bit_equal(before[i], after[i])) << i;
      const double rate = session.learning_rate();
      EXPECT_TRUE(step().taken);
      EXPECT_EQ(session.learning_rate(), rate);
      EXPECT_EQ(session.updates(), 2);
      const auto own = static_cast<std::uint64_t>(2 * communicator.rank());
      EXPECT_EQ(cursors, (std::vector<std::uint64_t>{own, 8 + own, 16 + own}));
    });
  }
}

// Gradient of the embedding in the first step, as the optimizer saw it. The head is so small that dx of a
// token is about 5e-9 before scaling; fp16 rounds what is under 3e-8 to zero.
Tensor embedding_gradient(const spec::Run& run) {
  Tensor out;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run), alone, random_source(run.model), {.keep_gradients = true});
    for (auto& bucket : session.buckets())
      if (bucket.table().name == "head") bucket.shard().mul_(2.5e-4);
    EXPECT_TRUE(session.step().taken);
    out = session.buckets()[0].kept_gradient().to(at::kDouble);
  });
  return out;
}

TEST_P(Fp16, GradientsThatVanishWithoutAScaleSurviveWithOne) {
  auto run = fp16_run(GetParam(), 1);
  run.training.clip_norm = 0;
  run.training.global_batch = 64;
  run.training.loss_scale_start = 1;
  const Tensor unscaled = embedding_gradient(run);
  run.training.loss_scale_start = 65536;
  const Tensor scaled = embedding_gradient(run);
  run.layout.precision = spec::Precision::fp32;
  const Tensor exact = embedding_gradient(run);
  const auto norm = [](const Tensor& t) { return t.norm().item<double>(); };
  EXPECT_GT(norm(exact), 0);
  EXPECT_EQ(norm(unscaled), 0) << "nothing vanished: the test tests nothing";
  EXPECT_LT(norm(scaled.sub(exact)), 0.02 * norm(exact));
}

TEST_P(Fp16, TrainsAsFp32DoesAndReportsUnscaledNumbers) {
  for (const std::int64_t dp : {1, 2}) {
    auto run = fp16_run(GetParam(), dp);
    const auto reports = [&] {
      std::vector<engine::StepReport> out;
      collective::run_ranks(static_cast<int>(dp), [&](const collective::Communicator& communicator) {
        Session session(session_plan(run), communicator, random_source(run.model));
        for (int i = 0; i < 5; ++i) {
          const auto report = session.step();
          if (communicator.rank() == 0) out.push_back(report);
        }
      });
      return out;
    };
    const auto half = reports();
    run.layout.precision = spec::Precision::fp32;
    const auto exact = reports();
    for (std::size_t i = 0; i < half.size(); ++i) {
      EXPECT_TRUE(half[i].taken);
      EXPECT_NEAR(half[i].loss / exact[i].loss, 1, 2e-3) << "step " << i;
      EXPECT_NEAR(half[i].gradient_norm / exact[i].gradient_norm, 1, 2e-2) << "step " << i;
      EXPECT_NE(half[i].loss, exact[i].loss);
      EXPECT_EQ(half[i].loss_scale, 65536);
      EXPECT_EQ(exact[i].loss_scale, 1);
    }
  }
}

TEST_P(Fp16, TheScaleGrowsAfterStepsInARow) {
  auto run = fp16_run(GetParam(), 2);
  run.training.loss_scale_growth_steps = 2;
  run.training.loss_scale_start = 16;
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    Session session(session_plan(run), communicator, random_source(run.model));
    std::vector<double> scales;
    for (int i = 0; i < 5; ++i) scales.push_back(session.step().loss_scale);
    EXPECT_EQ(scales, (std::vector<double>{16, 16, 32, 32, 64}));
  });
}

// The fp64 proof runs without a scale, so here: another scale rounds other subnormal numbers, and no more.
TEST(LossScale, DropsOutOfTheUpdate) {
  auto run = fp16_run(spec::Family::gpt2, 1);
  const auto trained = [&] {
    std::vector<Tensor> out;
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      Session session(session_plan(run), alone, random_source(run.model));
      for (int i = 0; i < 3; ++i) session.step();
      out = durable(session);
    });
    return out;
  };
  run.training.loss_scale_start = 1024;
  const auto a = trained();
  run.training.loss_scale_start = 2048;
  const auto b = trained();
  double differing = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differing += a[i].sub(b[i]).abs().gt(a[i].abs().mul(1e-2).add(1e-4)).sum().item<double>();
    all += static_cast<double>(a[i].numel());
  }
  EXPECT_LE(differing, all * 1e-3) << "scales of 1024 and 2048 train differently";
}

}  // namespace
}  // namespace tessera::train
