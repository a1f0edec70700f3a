#include "tessera/verify/verify.hpp"

#include <gtest/gtest.h>

#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/testing/damaged.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/shrink.hpp"

namespace tessera::train {
namespace {

spec::Run small_run() {
  spec::Run run = train::small_run(1);
  run.layout.micro_batch = 1;
  return run;
}

spec::Run gpt2_run() {
  spec::Run run = small_run();
  run.model.family = spec::Family::gpt2;
  run.model.kv_heads = run.model.heads;
  return run;
}

void expect_equal_to_one_device(const spec::Run& run, const std::string& name) {
  const auto verification = verify_on_threads(run);
  EXPECT_TRUE(verification.passed()) << name << "\n" << to_text(verification);
}

TEST(Verify, DataParallelismAndAccumulationEqualOneDevice) {
  for (const bool tied : {false, true})
    for (const std::int64_t dp : {1, 2, 3, 4, 8})
      for (const std::int64_t accumulation : {1, 2, 5}) {
        auto run = small_run();
        run.model.tied_embeddings = tied;
        run.layout.dp_replicate = dp;
        run.layout.micro_batch = 2;
        run.training.global_batch = dp * 2 * accumulation;
        expect_equal_to_one_device(run, cat("dp ", dp, " accumulation ", accumulation, tied ? " tied" : ""));
      }
}

TEST(Verify, Gpt2EqualsOneDevice) {
  for (const bool tied : {false, true})
    for (const std::int64_t dp : {1, 2, 3, 4})
      for (const std::int64_t accumulation : {1, 3}) {
        auto run = gpt2_run();
        run.model.tied_embeddings = tied;
        run.layout.dp_replicate = dp;
        run.layout.micro_batch = 2;
        run.training.global_batch = dp * 2 * accumulation;
        expect_equal_to_one_device(run,
                                   cat("gpt2 dp ", dp, " accumulation ", accumulation, tied ? " tied" : ""));
      }
}

// Biases of q, k and v, norms of heads, heads wider than hidden, scaled frequencies, in every kind of layout.
TEST(Verify, RelatedFamiliesEqualOneDevice) {
  for (auto run : related_runs(1))
    for (const bool tied : {false, true}) {
      run.model.tied_embeddings = tied;
      run.layout.micro_batch = 1;
      const std::string name = cat("bias ", run.model.qkv_bias, " norm ", run.model.qk_norm, " tied ", tied);
      run.layout.dp_replicate = 3;
      expect_equal_to_one_device(run, name + " dp 3");
      run.layout.dp_replicate = 1;
      run.layout.dp_shard = 2;
      run.layout.zero = 3;
      for (const auto recompute : {spec::Recompute::full, spec::Recompute::selective}) {
        run.layout.recompute = recompute;
        run.layout.pp = 1;
        expect_equal_to_one_device(run, name + " zero 3, recomputed");
        run.layout.pp = 2;
        run.layout.schedule = "zb-v"_schedule;
        run.model.layers = 4;
        expect_equal_to_one_device(run, name + " zero 3, pp 2, recomputed");
        run.model.layers = 2;
      }
    }
}

TEST(Verify, Gpt2WithShortAndEmptyMicroBatchesEqualsOneDevice) {
  for (const std::int64_t batch : {1, 7}) {
    auto run = gpt2_run();
    run.layout.dp_replicate = 4;
    run.layout.micro_batch = 2;
    run.training.global_batch = batch;
    expect_equal_to_one_device(run, cat("gpt2 dp 4 batch ", batch));
  }
}

TEST(Verify, OnlyKeyBiasesOfGpt2AreZeroInTheory) {
  auto run = gpt2_run();
  run.layout.dp_replicate = 2;
  const auto verification = verify_on_threads(run);
  int zeros = 0;
  for (const auto& comparison : verification.comparisons) {
    if (comparison.kind != "gradient" || !comparison.zero_in_theory) continue;
    EXPECT_NE(comparison.what.find("attn.k_proj.bias"), std::string::npos) << comparison.what;
    ++zeros;
  }
  EXPECT_EQ(zeros, run.model.layers);
}

TEST(Verify, DropoutDoesNotDependOnTheLayout) {
  for (auto run : {small_run(), gpt2_run()})
    for (const std::int64_t dp : {1, 2, 4})
      for (const std::int64_t micro_batch : {1, 3}) {
        run.model.dropout = 0.2;
        run.layout.dp_replicate = dp;
        run.layout.micro_batch = micro_batch;
        run.training.global_batch = 12;
        expect_equal_to_one_device(run, cat("dropout, dp ", dp, ", micro-batches of ", micro_batch));
      }
}

TEST(Verify, ABatchThatDoesNotDivideLeavesEmptyAndShortMicroBatches) {
  for (const bool tied : {false, true})
    for (const std::int64_t batch : {1, 3, 7, 9}) {
      auto run = small_run();
      run.model.tied_embeddings = tied;
      run.layout.dp_replicate = 4;
      run.layout.micro_batch = 2;
      run.training.global_batch = batch;
      expect_equal_to_one_device(run, cat("dp 4 batch ", batch));
    }
}

TEST(Verify, ReductionsOnTheComputeLaneAreTheSameNumbers) {
  auto run = small_run();
  run.layout.dp_replicate = 3;
  run.layout.overlap = false;
  expect_equal_to_one_device(run, "overlap off");
}

TEST(Verify, SgdAndGroupedQueriesOfOneHeadEqualOneDevice) {
  auto run = small_run();
  run.model.kv_heads = 1;
  run.training.optimizer = spec::Optimizer::sgd;
  run.training.momentum = 0.9;
  run.layout.dp_replicate = 2;
  expect_equal_to_one_device(run, "sgd");
}

TEST(Verify, AModelOfZerosIsEqualToItself) {
  auto run = small_run();
  run.model.init_std = 0;
  run.layout.dp_replicate = 2;
  expect_equal_to_one_device(run, "all zero");
}

TEST(Verify, SequencesOfAFewTokensKeepTargetsAndEqualOneDevice) {
  for (const std::int64_t sequence : {1, 2, 3, 4, 5})
    for (auto run : {small_run(), gpt2_run()}) {
      run.model.sequence = sequence;
      run.training.global_batch = 4;
      run.layout.dp_replicate = 2;
      const auto verification = verify_on_threads(run);
      EXPECT_TRUE(verification.passed()) << "sequence " << sequence << "\n" << to_text(verification);
      for (const auto& c : verification.comparisons) EXPECT_TRUE(c.is_finite) << c.what << sequence;
    }
}

// An epsilon this small makes updates of the biases of keys, whose gradients are rounding, as large as any
// others.
TEST(Verify, ParametersThatAdamMovesByRoundingAreNotJudgedAndTold) {
  auto run = gpt2_run();
  run.training.epsilon = 1e-30;
  run.layout.dp_replicate = 2;
  const auto verification = verify_on_threads(run);
  EXPECT_TRUE(verification.passed()) << to_text(verification);
  for (const auto& c : verification.comparisons)
    EXPECT_EQ(c.zero_in_theory, c.what.ends_with("attn.k_proj.bias")) << c.kind << " " << c.what;
  EXPECT_NE(to_text(verification).find("not judged: 2 parameter(s)"), std::string::npos)
      << to_text(verification);
}

TEST(Verify, ARunThatOverflowsOnOneDeviceTooIsEqualAndToldToProveNothing) {
  auto run = small_run();
  run.training.learning_rate = 1e300;
  run.training.clip_norm = 0;
  run.layout.dp_replicate = 2;
  const auto verification = verify_on_threads(run);
  EXPECT_TRUE(verification.passed()) << to_text(verification);
  EXPECT_NE(to_text(verification).find("are not finite: nothing is proven by these"), std::string::npos)
      << to_text(verification);
}

TEST(Verify, NoticesSumsThatAreLeftOutDoneTwiceOrScaled) {
  using enum collective::Harm;
  for (const std::int64_t dp : {2, 4})
    for (const auto harm : {skipped, twice, scaled}) {
      auto run = small_run();
      run.layout.dp_replicate = dp;
      const Damaged damaged{0, {harm, collective::CallKind::all_reduce}};
      EXPECT_FALSE(verify_on_threads(run, damaged).passed()) << "dp " << dp << ", " << word(harm);
    }
}

TEST(Verify, ALargeModelIsMadeSmallerAndSaysHow) {
  auto run = small_run();
  run.model = {.layers = 40,
               .hidden = 4096,
               .heads = 32,
               .kv_heads = 8,
               .ffn = 14336,
               .vocab = 128256,
               .sequence = 8192};
  run.layout.micro_batch = 16;
  run.training.global_batch = 100;
  std::string note;
  const auto small = shrunk_for_verification(run, note);
  EXPECT_EQ(small.model.heads / small.model.kv_heads, 4);
  EXPECT_EQ(small.model.hidden, small.model.heads * 16);
  EXPECT_EQ(small.layout.micro_batch, 4);
  EXPECT_EQ(small.training.global_batch, 17)
      << "25 samples in rounds of 4: five micro-batches, the last as short";
  EXPECT_NE(note.find("layers 40 -> 3"), std::string::npos) << note;
  EXPECT_NE(note.find("vocab 128256 -> 300"), std::string::npos) << note;
}

}  // namespace
}  // namespace tessera::train
