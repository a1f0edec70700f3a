// Fitting a stack to runs, and comparing with others. About two seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/planner/fit/evaluate.hpp"
#include "tessera/planner/fit/stack_profile.hpp"

namespace tessera::planner {
namespace {

constexpr const char* kColumns =
    "id,gpu,n_gpus,layers,hidden,ffn,heads,kv_heads,seq,vocab,tp,pp,dp,cp,vpp,micro_batch,global_batch,zero_"
    "stage,recompute,"
    "seq_parallel,precision,step_time_s,memory_gb,notes,quality,split\n";

// Runs of a made-up stack whose constants are known, with two percent of noise.
std::vector<MeasuredRun> made_up(const Constants& truth, std::uint64_t seed) {
  std::vector<MeasuredRun> out;
  for (const double hidden : {2048.0, 4096.0, 8192.0})
    for (const double tp : {1.0, 4.0, 8.0})
      for (const double pp : {1.0, 4.0})
        for (const double micro : {1.0, 4.0}) {
          MeasuredRun run;
          run.device = known_device("H100-80GB-SXM"), run.network = network_of(run.device);
          run.stack = "made/H100-80GB-SXM", run.quality = "A";
          Workload& w = run.work;
          w.layers = 32, w.hidden = hidden, w.heads = w.kv_heads = hidden / 128, w.head_dim = 128,
          w.ffn = 3.5 * hidden;
          w.vocab = 32000, w.sequence = 4096, w.devices = 64, w.tp = tp, w.pp = pp,
          w.dp = w.shard = 64 / tp / pp;
          w.micro_batch = micro, w.global_batch = 512, w.zero = 1;
          run.id = cat("made-", out.size());
          run.seconds = estimate(w, run.device, run.network, truth).step *
                        std::exp(0.02 * random_normal(seed, 0, out.size()));
          out.push_back(run);
        }
  return out;
}

TEST(Fit, OfTenRunsFindsTheConstantsAndPredictsTheRest) {
  Constants truth;
  truth.gemm = 0.85, truth.tensor = 1.8, truth.attention = 0.7;
  const auto runs = made_up(truth, 3);
  std::vector<MeasuredRun> chosen;
  for (const std::size_t i : runs_to_measure(runs, 10, 1)) chosen.push_back(runs[i]);
  const Fit fit(chosen);
  EXPECT_NEAR(fit.constants().gemm, truth.gemm, 0.06);
  EXPECT_NEAR(fit.constants().tensor, truth.tensor, 0.5);
  double worst = 0;
  int held = 0;
  for (const MeasuredRun& run : runs) {
    const Prediction predicted = fit.predict(run);
    worst = std::max(worst, std::abs(predicted.seconds / run.seconds - 1));
    held += predicted.low <= run.seconds && run.seconds <= predicted.high;
    EXPECT_LT(predicted.low, predicted.seconds);
  }
  EXPECT_LT(worst, 0.12);
  EXPECT_GT(held, 28);  // of 36
}

TEST(Fit, RunsToMeasureDoNotDependOnTimes) {
  auto runs = made_up({}, 3);
  const auto first = runs_to_measure(runs, 10, 1);
  for (MeasuredRun& run : runs) run.seconds = 1;
  EXPECT_EQ(runs_to_measure(runs, 10, 1), first);
  EXPECT_EQ(std::set<std::size_t>(first.begin(), first.end()).size(), 10u);
}

TEST(Fit, OfNoRunsIsThePriorWithAWideInterval) {
  const auto runs = made_up({}, 3);
  const Prediction blind = Fit().predict(runs[0]), sure = Fit(runs).predict(runs[0]);
  EXPECT_GT(blind.high / blind.low, sure.high / sure.low);
}

TEST(RunsTable, ReadsQuotedCellsAndWhatTheNotesSay) {
  const auto runs = read_runs(cat(kColumns,
                                  "zb-1,A100-80GB-SXM,8,22,2304,9216,24,24,1024,,1,8,1,1,1,6,144,0,none,0,"
                                  "fp16-mixed,1.39,32,\"schedule ZB-2p; \"\"x\"\", 4x100Gb\",A,validate\n",
                                  "aa-1,A100-80GB-SXM,64,40,5120,13824,40,,2048,128000,2,2,16,,,4,2048,1,"
                                  "full,0,bf16,,,OOM; attention kernel: torch; 1F1B,B,validate\n",
                                  "x-1,Abacus,1,,,,,,,,,,,,,,,,,,,3,,,A,\n"),
                              "t.csv");
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].stack, "zb/A100-80GB-SXM");
  EXPECT_EQ(runs[0].work.order, PipelineOrder::zb_full);
  EXPECT_EQ(runs[0].network.network_gbps, 6.25);
  EXPECT_FALSE(runs[0].work.gated);
  EXPECT_EQ(runs[0].work.stage_layers(), 3);
  EXPECT_EQ(runs[0].work.last_layers(), 2);
  EXPECT_TRUE(runs[1].out_of_memory);
  EXPECT_EQ(runs[1].work.attention, AttentionKernel::plain);
  EXPECT_EQ(runs[1].work.kv_heads, 40);
  EXPECT_THAT(runs[2].unusable, testing::HasSubstr("Abacus"));
  EXPECT_THROW(read_runs("a,b\n1,2\n", "t.csv"), UserError);
}

TEST(Evaluate, ComparesOnRunsThatWereNotFittedTo) {
  Constants truth;
  truth.gemm = 0.9;
  const auto evaluation = evaluate(made_up(truth, 5), 10, 1);
  ASSERT_EQ(evaluation.stacks.size(), 1u);
  const auto& stack = evaluation.stacks[0];
  EXPECT_EQ(stack.fitted_to.size(), 10u);
  EXPECT_EQ(stack.errors.rows, 26u);
  for (const Compared& one : stack.compared)
    EXPECT_EQ(std::ranges::count(stack.fitted_to, one.id), 0) << one.id;
  EXPECT_LT(stack.errors.mean_abs_error, 0.05);
  EXPECT_LT(stack.errors.mean_abs_error, stack.errors.baseline_constant);
  EXPECT_EQ(evaluate(made_up(truth, 5), 0, 1).all.rows, 36u);
}

TEST(StackProfile, ReadsBackWhatItWrote) {
  const std::string row =
      "a-1,H100-80GB-SXM,8,32,4096,14336,32,8,8192,128256,1,1,8,1,1,1,64,1,none,0,bf16,6.5,,,A,";
  const StackProfile profile{.stack = "a", .columns = first_line(kColumns), .records = {row}};
  const std::string json = to_json(profile);
  EXPECT_EQ(parse_profile(json, "p.json"), profile);
  EXPECT_EQ(fit_of(profile).runs().size(), 1u);
  EXPECT_THROW(parse_profile("{}", "p.json"), UserError);
  EXPECT_THROW(parse_profile("[[[[[[[[[[[[", "p.json"), UserError);
  EXPECT_THROW(parse_profile("{\"tessera_stack_profile\": 2}", "p.json"), UserError);
}

}  // namespace
}  // namespace tessera::planner
