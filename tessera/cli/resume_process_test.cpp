// Runs of real processes that are stopped and go on, on the same layout and on others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tessera/base/testing/one_in.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

class Resuming : public Binary {
 protected:
  Outcome train(const std::string& arguments) const {
    return tessera(cat("train ", path("run.toml"), " --out ", path("out"),
                       " cluster.peak_tflops=1 model.layers=4 training.global_batch=9 layout.micro_batch=1 "
                       "checkpoint.every=3 ",
                       arguments));
  }
  std::vector<double> trained(const std::string& arguments) const {
    const Outcome outcome = train(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.out;
    return losses();
  }
  void begin_anew() const { std::filesystem::remove_all(path("out")); }
};

TEST_F(Resuming, EightPairsOfLayoutsGoOnAsIfNothingHadHappened) {
  const std::string layouts[] = {
      "layout.dp_replicate=2",
      "layout.pp=2 layout.dp_shard=2 layout.zero=3",
      "layout.pp=4 layout.schedule=zb-h1",
      "layout.dp_shard=3 layout.zero=1",
      "layout.pp=2 layout.schedule=interleaved layout.dp_replicate=2",
      "layout.dp_shard=2 layout.dp_replicate=2 layout.zero=2",
      "layout.pp=2 layout.schedule=zb-v model.tied_embeddings=true",
      "layout.dp_shard=4 layout.zero=3 layout.offload=optimizer model.tied_embeddings=true"};
  // In fp64 all of them lose as one rank does.
  std::vector<double> untied, tied;
  for (auto* of : {&untied, &tied}) {
    begin_anew();
    *of = trained(cat("layout.precision=fp64 training.steps=6 --from none model.tied_embeddings=",
                      of == &tied ? "true" : "false"));
  }
  const std::pair<int, int> pairs[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 0}, {6, 7}, {7, 6}};
  OneIn sampled(3);
  for (const auto& [a, b] : pairs) {
    if (!sampled()) continue;
    const auto& expected = layouts[b].find("tied") == std::string::npos ? untied : tied;
    begin_anew();
    trained(cat("layout.precision=fp64 training.steps=6 checkpoint.keep_last=0 ", layouts[a]));
    std::filesystem::remove_all(path("out/checkpoints/step-00000006"));
    const auto found = trained(cat("layout.precision=fp64 training.steps=6 ", layouts[b]));
    ASSERT_EQ(found.size(), 6u) << "the first steps stay in metrics.jsonl";
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-10 * expected[i])
          << layouts[a] << " -> " << layouts[b] << ", step " << i + 1;
  }
}

TEST_F(Resuming, TheSameLayoutGoesOnBitForBit) {
  const std::string layout = "layout.pp=2 layout.dp_shard=2 layout.zero=2 ";
  const auto expected = trained(layout + "training.steps=8");
  begin_anew();
  trained(layout + "training.steps=8 checkpoint.keep_last=0");
  std::filesystem::remove_all(path("out/checkpoints/step-00000008"));
  std::filesystem::remove_all(path("out/checkpoints/step-00000006"));
  const Outcome outcome = train(layout + "training.steps=8");
  EXPECT_THAT(outcome.out, HasSubstr("going on after step 3 from " + path("out/checkpoints/step-00000003")));
  EXPECT_EQ(losses(), expected);
  EXPECT_THAT(train(layout + "training.steps=8").out,
              HasSubstr("nothing is left to train: 8 steps were made"));
}

TEST_F(Resuming, TensorBoardSeesOneRun) {
  trained("training.steps=6 checkpoint.keep_last=0");
  std::filesystem::remove_all(path("out/checkpoints/step-00000006"));
  trained("training.steps=5");
  const Outcome read = shell(cat(".venv/bin/python tests/watching/read_events.py ", path("out")));
  EXPECT_EQ(read.code, 0) << read.out;
  EXPECT_THAT(read.out, HasSubstr("of 5 steps agree"));
}

// The content of a data file is what counts; the words of both flags are told.
TEST_F(Resuming, ChangedDataAndOptimizersAreRefusedUnlessTheUserSaysSo) {
  std::filesystem::copy("corpus/kjv.txt", path("data.txt"));
  const std::string steps = cat("training.steps=6 data.path=", path("data.txt"), " ");
  trained("training.steps=3");
  EXPECT_EQ(train(steps).code, 0) << "the same file under another name";
  std::filesystem::remove_all(path("out/checkpoints/step-00000006"));
  shell(cat("echo more >> ", path("data.txt")));
  const Outcome refused = train(steps + "data.seed=4");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("data.seed = 4, the checkpoint has 1"));
  EXPECT_THAT(refused.out, HasSubstr(cat("data.path = \"", path("data.txt"), "\" (")));
  const Outcome accepted = train(steps + "data.seed=4 --accept-changed-data");
  EXPECT_EQ(accepted.code, 0) << accepted.out;
  EXPECT_THAT(accepted.out, HasSubstr("--accept-changed-data: data.seed = 4, the checkpoint has 1"));

  begin_anew();
  const auto before = trained("training.steps=6 checkpoint.keep_last=0");
  const Outcome other = train("training.steps=9 training.optimizer=sgd --procs 2");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.out, HasSubstr("holds the state of adamw"));
  EXPECT_EQ(losses(), before) << "a refused start changes nothing";
  const Outcome reset = train("training.steps=9 training.optimizer=sgd --reset-optimizer --procs 2");
  EXPECT_EQ(reset.code, 0) << reset.out;
  EXPECT_THAT(reset.out, HasSubstr("going on after step 6"));
  EXPECT_EQ(train("training.steps=12").code, 2) << "back to adamw";
  EXPECT_EQ(losses().size(), 9u);
}

TEST_F(Resuming, ARunWhoseDataIsCutOffIsSavedBeforeItEnds) {
  shell(cat("head -c 100000 corpus/kjv.txt > ", path("data.txt")));
  const std::string log = path("log");
  const Outcome outcome = shell(
      cat("( until grep -q ' 20/100000 ' ", log, "; do sleep 0.05; done; truncate -s 10 ", path("data.txt"),
          " ) & : > ", log, "; ", binary(), " train ", path("run.toml"), " --out ", path("out"),
          " --procs 2 cluster.peak_tflops=1 training.steps=100000 checkpoint.every=100000 data.path=",
          path("data.txt"), " > ", log, " 2>&1; code=$?; tail -5 ", log, "; exit $code"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("the file ends there"));
  EXPECT_THAT(outcome.out, HasSubstr("The run is saved in " + path("out/checkpoints/step-")));
  const auto steps = losses().size();
  EXPECT_GE(steps, 20u);
  const std::string name = cat(steps);
  EXPECT_TRUE(
      std::filesystem::exists(path("out/checkpoints/step-") + std::string(8 - name.size(), '0') + name))
      << "of the last finished step";
}

TEST_F(Resuming, ARunWhoseStepsAreNotTakenAnyMoreIsSavedAndStops) {
  const Outcome outcome = train(
      "training.steps=40 training.warmup_steps=0 training.learning_rate=1e30 "
      "training.stop_after_skipped=5 checkpoint.every=1000 --procs 2");
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.out,
              HasSubstr("steps 2 to 6 were not taken, as their gradients were not finite (the last: loss "));
  EXPECT_THAT(outcome.out, HasSubstr("stops after 5 such steps in a row (training.stop_after_skipped)"));
  EXPECT_THAT(outcome.out, HasSubstr("saved in " + path("out/checkpoints/step-00000006")));
  EXPECT_TRUE(std::filesystem::exists(path("out/checkpoints/step-00000006/manifest.json")));
  EXPECT_EQ(losses().size(), 6u);
  begin_anew();
  const Outcome never = train(
      "training.steps=12 training.warmup_steps=0 training.learning_rate=1e30 training.stop_after_skipped=0");
  EXPECT_EQ(never.code, 0) << never.out;
}

TEST_F(Resuming, ALastSaveThatFailsIsAnErrorThatNamesTheNewestCheckpoint) {
  trained("training.steps=3");
  const std::string more = cat(binary(), " train ", path("run.toml"), " --out ", path("out"),
                               " cluster.peak_tflops=1 model.layers=4 training.global_batch=9 "
                               "layout.micro_batch=1 training.steps=5 checkpoint.every=1000 ");
  for (const char* procs : {"--procs 1", "--procs 3"}) {
    const Outcome outcome = shell(cat("ulimit -f 200; ", more, procs));  // no checkpoint is that small
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("the checkpoint of step 5, the last of this run, could not be saved"));
    EXPECT_THAT(outcome.out,
                HasSubstr("The newest whole checkpoint is " + path("out/checkpoints/step-00000003")));
  }
}

TEST_F(Resuming, ADivergingRunDoesNotRemoveTheCheckpointsFromBeforeIt) {
  trained("training.steps=4 checkpoint.every=1");
  const Outcome outcome = train(
      "training.steps=40 training.warmup_steps=0 training.learning_rate=1e38 "
      "training.stop_after_skipped=5 checkpoint.every=1 checkpoint.keep_last=2");
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("steps 6 to 10 were not taken"));
  EXPECT_TRUE(std::filesystem::exists(path("out/checkpoints/step-00000004/manifest.json"))) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("step 6 is not saved: no step after step 5 was taken"));
}

TEST_F(Resuming, OldCheckpointsGoAndThoseToKeepStay) {
  trained("training.steps=9 checkpoint.every=1 checkpoint.keep_last=2 checkpoint.keep_every=4");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path("out/checkpoints")))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"step-00000004", "step-00000008", "step-00000009"}));
}

}  // namespace
}  // namespace tessera::cli
