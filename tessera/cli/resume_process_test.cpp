// Runs of real processes that are stopped and go on, on the same layout and on others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tessera/cli/binary_fixture.hpp"

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
  const std::pair<int, int> pairs[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 0}, {6, 7}, {7, 6}};
  for (const auto& [a, b] : pairs) {
    begin_anew();
    const auto expected = trained(cat("layout.precision=fp64 training.steps=6 --from none ", layouts[b]));
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

TEST_F(Resuming, OldCheckpointsGoAndThoseToKeepStay) {
  trained("training.steps=9 checkpoint.every=1 checkpoint.keep_last=2 checkpoint.keep_every=4");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path("out/checkpoints")))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"step-00000004", "step-00000008", "step-00000009"}));
}

}  // namespace
}  // namespace tessera::cli
