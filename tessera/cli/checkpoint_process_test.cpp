// The commands on checkpoints, as a user types them.
#include <gmock/gmock.h>

#include "tessera/checkpoint/testing/small_checkpoint.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class CheckpointCommands : public Binary {
 protected:
  void SetUp() override {
    Binary::SetUp();
    checkpoint::save_small(path("run/checkpoints"), 10, 4);
    checkpoint::save_small(path("run/checkpoints"), 20, 2);
  }

  std::string step(int step) const { return checkpoint::step_folder(path("run/checkpoints"), step).path; }

  void damage(const std::string& file, std::streamoff from_end) const {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(-from_end, std::ios::end);
    out.put('x');
  }
};

TEST_F(CheckpointCommands, InspectTellsStateSizesTensorsAndFiles) {
  const Outcome one = tessera(cat("checkpoint inspect ", step(10)));
  EXPECT_EQ(one.code, 0);
  for (const char* part :
       {"step 10, 10 updates, next sample 24, seed 7", "4 shards", "llama, 2 layers", "parameters",
        "optimizer.exp_avg", "model.layers.{0-1}.mlp.weight", "33 x 7", "rank-00003.safetensors"})
    EXPECT_THAT(one.out, HasSubstr(part));
  EXPECT_THAT(tessera(cat("checkpoint inspect --all ", step(10))).out,
              HasSubstr("model.layers.1.mlp.weight"));
  const Outcome list = tessera(cat("checkpoint inspect ", path("run")));
  EXPECT_EQ(count_of(list.out, "opens"), 2u);
  EXPECT_LT(list.out.find("step-00000020"), list.out.find("step-00000010"));
  const Outcome json = tessera(cat("checkpoint inspect --json ", step(20)));
  EXPECT_EQ(field(json.out, "step"), 20);
  EXPECT_EQ(field(json.out, "ranks"), 2);
  EXPECT_EQ(tessera(cat("checkpoint inspect ", path("nowhere"))).code, 2);
}

TEST_F(CheckpointCommands, VerifyExitsWithOneAndNamesAllDamage) {
  EXPECT_EQ(tessera(cat("checkpoint verify ", path("run"))).code, 0);
  damage(step(10) + "/rank-00001.safetensors", 5);
  damage(step(10) + "/rank-00003.safetensors", 9);
  const Outcome bad = tessera(cat("checkpoint verify ", path("run")));
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.out, HasSubstr("step-00000020: whole"));
  EXPECT_THAT(bad.out, HasSubstr("step-00000010: DAMAGED, 2 problems"));
  EXPECT_THAT(bad.out, HasSubstr("rank-00003.safetensors' is damaged between byte 0"));
  const Outcome json = tessera(cat("checkpoint verify --json ", step(10)));
  EXPECT_EQ(json.code, 1);
  EXPECT_THAT(json.out, HasSubstr("\"whole\": false"));
}

TEST_F(CheckpointCommands, ReshardThenDiffIsEqual) {
  const Outcome made = tessera(cat("checkpoint reshard ", step(10), " ", path("three"), " --ranks 3"));
  EXPECT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("4 -> 3 shards"));
  EXPECT_EQ(tessera(cat("checkpoint verify ", path("three"))).code, 0);
  const Outcome same = tessera(cat("checkpoint diff ", step(10), " ", path("three")));
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_THAT(same.out, HasSubstr("equal: 18 of 18 tensors"));
  const Outcome again = tessera(cat("checkpoint reshard ", step(10), " ", path("three"), " --ranks 3"));
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.out, HasSubstr("exists"));
  const Outcome run = tessera(cat("checkpoint reshard ", path("run"), " ", path("four"), " --ranks 4"));
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.out, HasSubstr("holds 2 checkpoints of a run; name one, the newest is"));
}

TEST_F(CheckpointCommands, DiffExitsWithOneAndSaysWhatDiffers) {
  const Outcome other = tessera(cat("checkpoint diff ", step(10), " ", step(20)));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, HasSubstr("DIFFERENT: 18 of 18"));
  EXPECT_THAT(other.out, HasSubstr("state step"));
  ASSERT_EQ(
      tessera(cat("checkpoint reshard ", step(10), " ", path("p"), " --ranks 1 --parameters-only")).code, 0);
  const Outcome json = tessera(cat("checkpoint diff --json ", step(10), " ", path("p")));
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(field(json.out, "equal_tensors"), 9);
  EXPECT_THAT(json.out, HasSubstr("\"only_first\": [\"optimizer.exp_avg."));
}

// Saved on 2 stages x 2 ranks under ZeRO-1, by version 1 of the format.
TEST_F(CheckpointCommands, ARunGoesOnFromTheGoldenCheckpoint) {
  const std::string golden = "tessera/checkpoint/golden/zero-1";
  EXPECT_EQ(tessera(cat("checkpoint verify ", golden)).code, 0);
  std::ofstream(path("golden.toml")) << checkpoint::Checkpoint(golden).manifest().config;
  const Outcome outcome =
      tessera(cat("train ", path("golden.toml"), " --from ", golden, " --out ", path("out"),
                  " training.steps=3 layout.pp=1 layout.dp_shard=1 layout.zero=0 --json"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_NEAR(field(outcome.out, "last_loss"), 5.49, 0.02) << outcome.out;
}

TEST_F(CheckpointCommands, NamesInAManifestCanNotSteerTheTerminal) {
  checkpoint::NewFolder folder(path("steering"));
  const std::vector<float> values(2);
  const checkpoint::HeldPiece held{"a\x1b[2Jb", "F32", {2}, whole_box({2}), std::as_bytes(std::span(values))};
  checkpoint::Manifest manifest;
  checkpoint::write_pieces(folder.path(), 0, std::span(&held, 1), manifest);
  folder.commit(manifest);
  const Outcome outcome = tessera(cat("checkpoint inspect ", path("steering")));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("a?[2Jb"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace tessera::cli
