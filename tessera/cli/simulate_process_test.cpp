#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

TEST_F(Binary, SimulatesAScheduleByItself) {
  const auto outcome =
      tessera("simulate --schedule 1f1b --stages 4 --virtual 1 --micro-batches 8 --costs 1,1,1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(field(outcome.out, "makespan"), 33);
  EXPECT_NEAR(field(outcome.out, "bubble"), 9.0 / 33, 1e-12);
  EXPECT_NE(outcome.out.find("\"peak_activations\": [4, 3, 2, 1]"), std::string::npos) << outcome.out;
  EXPECT_LT(field(outcome.out, "seconds"), 1);
}

TEST_F(Binary, SimulatesEverySchedule) {
  const std::pair<const char*, double> makespans[] = {
      {"gpipe", 33}, {"1f1b", 33},   {"interleaved", 28.5}, {"bfs", 28.5},
      {"zb-h1", 27}, {"zb-v", 25.5}, {"dualpipe-v", 25.5}};
  for (const auto& [name, makespan] : makespans)
    EXPECT_EQ(
        field(tessera(cat("simulate --json --stages 4 --micro-batches 8 --schedule ", name)).out, "makespan"),
        makespan)
        << name;
  EXPECT_LE(field(tessera("simulate --json --stages 4 --micro-batches 8 --schedule auto").out, "makespan"),
            25.5);
}

TEST_F(Binary, TransfersTakeTime) {
  const auto outcome =
      tessera("simulate --schedule 1f1b --stages 2 --micro-batches 2 --costs 1,1,1,0.25 --json");
  EXPECT_EQ(field(outcome.out, "makespan"), 9.5) << outcome.out;
}

TEST_F(Binary, RefusesWhatCannotBeSimulated) {
  const std::pair<const char*, const char*> cases[] = {
      {"simulate", "takes a run file, or --schedule"},
      {"simulate --schedule 1f1c", "did you mean 1f1b?"},
      {"simulate --schedule 1f1b --costs 1,1", "--costs 1,1: wants 3 to 4 numbers"},
      {"simulate --schedule 1f1b --costs 1,1,-1", "--costs 1,1,-1"},
      {"simulate --schedule 1f1b --stages 4 --micro-batches 8 --memory-limit 3", "holds 4 activations"},
      {"simulate --schedule gpipe --stages 4096 --micro-batches 1000000", "too large to simulate"},
  };
  for (const auto& [command, text] : cases) {
    const auto outcome = tessera(command);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_NE(outcome.out.find(text), std::string::npos) << command << ": " << outcome.out;
  }
}

// A load that is the same in all blocks costs what layout.expert_load says.
TEST_F(Binary, PricesLoadsOfExperts) {
  const std::string simulate =
      cat("simulate ", path("run.toml"),
          " model.experts=4 layout.dp_shard=4 layout.ep=2 --rates 0.1,5,1,50 --json ");
  const auto seconds = [&](const std::string& more) {
    const auto outcome = tessera(simulate + more);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return field(outcome.out, "step_seconds");
  };
  const auto loads = [&](const char* name, const char* tokens) {
    std::string layers;
    for (int layer = 0; layer < 2; ++layer)
      layers +=
          cat(layer > 0 ? ", " : "", "{\"layer\": ", layer, ", \"tokens\": [", tokens, "], \"dropped\": 0}");
    std::ofstream(path(name)) << "{\"step\": 1, \"experts\": [" << layers << "]}\n";
    return path(name);
  };
  const std::string even = loads("even.jsonl", "8, 8, 8, 8"), hot = loads("hot.jsonl", "20, 4, 4, 4");
  EXPECT_EQ(seconds("--loads " + even), seconds(""));
  EXPECT_EQ(seconds("--loads " + hot), seconds("layout.expert_load=1.5"));
  EXPECT_GT(seconds("--loads " + hot), seconds(""));
  EXPECT_NE(tessera(simulate + "model.experts=8 --loads " + hot).out.find("has 4 experts in 2 layers"),
            std::string::npos);
}

TEST_F(Binary, SimulatesARunFile) {
  const std::string simulate = cat("simulate ", path("run.toml"), " --rates 0.1,5,1,50 ");
  const auto replicas = tessera(simulate + "layout.dp_replicate=2 --json");
  ASSERT_EQ(replicas.code, 0) << replicas.out;
  EXPECT_GT(field(replicas.out, "step_seconds"), field(replicas.out, "makespan"));
  EXPECT_GT(field(replicas.out, "makespan"), 0);
  EXPECT_NE(replicas.out.find("\"ranks\": [2]"), std::string::npos) << replicas.out;
  const auto pipeline = tessera(simulate + "layout.pp=2 layout.dp_replicate=2 --json");
  ASSERT_EQ(pipeline.code, 0) << pipeline.out;
  EXPECT_NE(pipeline.out.find("\"ranks\": [2, 2]"), std::string::npos) << pipeline.out;
  EXPECT_GT(field(pipeline.out, "bubble"), 0.1);
  EXPECT_NE(tessera(cat("simulate ", path("run.toml"))).out.find("TFLOP/s"), std::string::npos);
}

TEST_F(Binary, ReplicasOfAPipelineAreToldApartInATrace) {
  const std::string layout =
      cat(path("run.toml"), " layout.pp=2 layout.dp_replicate=2 layout.schedule=zb-h1 layout.micro_batch=1 ");
  const std::string trace = path("four.json");
  ASSERT_EQ(tessera(cat("train ", layout, " training.steps=2 --trace ", trace, " --out ", path("out"))).code,
            0);
  const auto simulated = tessera(cat("simulate ", layout, "--json --costs-from ", trace));
  EXPECT_EQ(simulated.code, 0) << simulated.out;
  EXPECT_GT(field(simulated.out, "makespan"), 0);
}

TEST_F(Binary, AWrittenScheduleMayHaveUnequalNumbersOfStages) {
  std::ofstream(path("three.csv")) << "0F0,2F0,2B0,0B0\n1F0,1B0\n";
  const auto outcome = tessera(cat("simulate --schedule ", path("three.csv"), " --costs 1,1,1 --json"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(field(outcome.out, "makespan"), 6)
      << "stages of 0.5, 1 and 0.5 one after the other, there and back";
}

TEST_F(Binary, PricesOpsByWhatTheyTookInATrace) {
  const std::string layout = cat(path("run.toml"), " layout.pp=2 layout.schedule=zb-h1 "),
                    trace = path("trace.json");
  const auto run = tessera(cat("train ", layout, "--json --trace ", trace, " --out ", path("out")));
  ASSERT_EQ(run.code, 0) << run.out;
  const auto simulated = tessera(cat("simulate ", layout, "--json --costs-from ", trace));
  ASSERT_EQ(simulated.code, 0) << simulated.out;
  const double ratio = field(simulated.out, "step_seconds") / field(run.out, "step_seconds");
  EXPECT_GT(ratio, 0.2);
  EXPECT_LT(ratio, 3);
  // Whole backwards are the sum of halves; gradients between replicas were not in that run.
  EXPECT_EQ(tessera(cat("simulate ", path("run.toml"), " layout.pp=2 --costs-from ", trace)).code, 0);
  const auto refused =
      tessera(cat("simulate ", path("run.toml"), " layout.dp_replicate=2 --costs-from ", trace));
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_NE(refused.out.find("in which 2 rank(s) do it"), std::string::npos) << refused.out;
}

}  // namespace
}  // namespace tessera::cli
