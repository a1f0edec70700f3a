#include <gmock/gmock.h>

#include "tessera/base/files/file_text.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(Binary, PlansTheMemoryOfARunByCategory) {
  const auto outcome = tessera(cat("plan memory ", path("run.toml")));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("parameters"), HasSubstr("optimizer"), HasSubstr("at the peak"),
                                 HasSubstr("holds most in op "), HasSubstr("optimizer state of ")));
  const auto dry = tessera(cat("train ", path("run.toml"), " --dry-run"));
  EXPECT_EQ(dry.code, 0);
  EXPECT_EQ(dry.out, outcome.out);
}

TEST_F(Binary, AndComparesItWithTheMemoryOfTheMachine) {
  EXPECT_THAT(tessera(cat("plan memory ", path("run.toml"), " layout.dp=2")).out,
              AllOf(HasSubstr("all 2 ranks together would hold "), HasSubstr("; this machine has "),
                    testing::Not(HasSubstr("not enough"))));
  const auto large = tessera(cat("plan memory ", path("run.toml"),
                                 " layout.dp=4096 training.global_batch=8192 "
                                 "model.hidden=8192 model.ffn=32768"));
  EXPECT_EQ(large.code, 0);
  EXPECT_THAT(large.out, HasSubstr("of memory, which is not enough for all of them"));
  const auto json = tessera(cat("plan memory ", path("run.toml"), " layout.dp=2 --json")).out;
  EXPECT_EQ(field(json, "all_ranks_bytes"), 2 * field(json, "peak_bytes"));
  EXPECT_GT(field(json, "machine_bytes"), field(json, "all_ranks_bytes"));
}

TEST_F(Binary, ARunIsPredictedToHoldWhatItHolds) {
  const auto planned = tessera(cat("plan memory ", path("run.toml"), " --json"));
  ASSERT_EQ(planned.code, 0) << planned.out;
  const auto trained = tessera(cat("train ", path("run.toml"), " --json --out ", path("out")));
  ASSERT_EQ(trained.code, 0) << trained.out;
  EXPECT_NEAR(field(planned.out, "peak_bytes") / field(trained.out, "peak_bytes"), 1, 0.05);
}

TEST_F(Binary, ALayoutAboveTheLimitIsRefusedBeforeAnythingStarts) {
  for (const char* command : {"plan memory ", "train "}) {
    const auto outcome =
        tessera(cat(command, path("run.toml"), " layout.memory_limit_mib=1 model.hidden=128"));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("layout.memory_limit_mib = 1: rank 0 would hold "));
  }
}

TEST_F(Binary, DrawsTheMemoryOfARun) {
  const auto outcome = tessera(cat("draw --memory ", path("run.toml"), " -o ", path("m.svg"), " --json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("\"peak_bytes\": "));
  EXPECT_THAT(file_text(path("m.svg")), HasSubstr(": tapes, up to "));
  EXPECT_EQ(tessera("draw --memory --schedule 1f1b").code, 2);
}

constexpr const char* kRuns =
    "id,gpu,n_gpus,layers,hidden,ffn,heads,kv_heads,seq,vocab,tp,pp,dp,micro_batch,global_batch,zero_stage,"
    "recompute,precision,"
    "step_time_s,notes,quality\n";

// A table of runs whose times grow as they should.
std::string table_of_runs() {
  std::string out = kRuns;
  for (const int tp : {1, 2, 4, 8})
    for (const int micro : {1, 2, 4})
      out += cat("mine-", tp, "-", micro, ",H100-80GB-SXM,8,32,4096,11008,32,32,4096,32000,", tp, ",1,",
                 8 / tp, ",", micro, ",64,1,none,bf16,", 4.0 + 0.15 * tp + 0.1 / micro, ",,A\n");
  return out;
}

TEST_F(Binary, PlansForADescribedCluster) {
  const std::string ask =
      cat("plan ", path("run.toml"), " training.global_batch=64 --cluster H100-80GB-SXM:4 --answers 2 ");
  const auto told =
      tessera(ask + "--explain --write " + path("planned.toml") + " --html " + path("plan.html"));
  ASSERT_EQ(told.code, 0) << told.out;
  for (const char* part : {"best of H100-80GB-SXM:4", "MFU %", "layouts considered", "run it with: layout."})
    EXPECT_NE(told.out.find(part), std::string::npos) << part << told.out;
  EXPECT_EQ(tessera(cat("plan memory ", path("planned.toml"))).code, 0);
  EXPECT_NE(file_text(path("plan.html")).find("Memory by stage"), std::string::npos);
  const auto json = tessera(ask + "--json");
  EXPECT_GT(field(json.out, "considered"), 10) << json.out;
  EXPECT_GT(field(json.out, "simulated"), 0);
  const auto what_if = tessera(cat("plan what-if ", path("run.toml"),
                                   " training.global_batch=64 --cluster H100-80GB-SXM:4 --answers 1 --with "
                                   "link_gbps=x2 --with training.global_batch=128"));
  EXPECT_EQ(what_if.code, 0) << what_if.out;
  EXPECT_NE(what_if.out.find("link_gbps=x2"), std::string::npos);
}

TEST_F(Binary, PlanRefusesWhatItCantAnswer) {
  for (const auto& [command, text] :
       {std::pair<std::string, std::string>{"plan", "plan takes a run file"},
        {cat("plan ", path("run.toml")), "plan needs devices: --cluster FILE"},
        {cat("plan ", path("run.toml"), " --cluster H100:x"),
         "the number of devices x: wants an integer from 1"},
        {cat("plan ", path("run.toml"), " --cluster Abacus:8"), "there is no device"},
        {"plan evaluate " + path("run.toml"), "is no table of runs"}}) {
    const auto told = tessera(command);
    EXPECT_EQ(told.code, 2) << command;
    EXPECT_NE(told.out.find(text), std::string::npos) << command << "\n" << told.out;
  }
}

TEST_F(Binary, EvaluatesAndCalibratesATableOfRuns) {
  std::ofstream(path("runs.csv")) << table_of_runs();
  const auto told = tessera(cat("plan evaluate ", path("runs.csv"), " --calibrate 5 --rows --choice"));
  ASSERT_EQ(told.code, 0) << told.out;
  for (const char* part : {"mine/H100-80GB-SXM", "persistence %", "off %", "what would have been chosen"})
    EXPECT_NE(told.out.find(part), std::string::npos) << part << told.out;
  EXPECT_NE(tessera(cat("plan evaluate ", path("runs.csv"), " --json")).out.find("\"coverage_80\""),
            std::string::npos);
  ASSERT_EQ(tessera(cat("plan calibrate ", path("runs.csv"), " --runs 6 -o ", path("mine.json"))).code, 0);
  const auto planned = tessera(cat("plan ", path("run.toml"),
                                   " training.global_batch=64 --cluster H100-80GB-SXM:2 --answers 1 --stack ",
                                   path("mine.json")));
  EXPECT_EQ(planned.code, 0) << planned.out;
  EXPECT_NE(planned.out.find("times by a fitted stack profile"), std::string::npos);
}

TEST_F(Binary, AutoPlansTheLayoutAndTrains) {
  std::string run = file_text(path("run.toml"));
  run = cat("layout = \"auto\"\n", run.substr(0, run.find("[layout]")));
  std::ofstream(path("auto.toml")) << run;
  const auto told = tessera(cat("train ", path("auto.toml"),
                                " training.global_batch=4 training.steps=2 --procs 2 --out ", path("out")));
  EXPECT_EQ(told.code, 0) << told.out;
  EXPECT_NE(told.out.find("run it with: layout."), std::string::npos) << told.out;
  EXPECT_NE(tessera(cat("verify ", path("auto.toml"))).out.find("layout.automatic"), std::string::npos);
}

}  // namespace
}  // namespace tessera::cli
