// The other reader of our shards: PyTorch's distributed checkpoint finds every tensor, whole and cut anew.
#include <gmock/gmock.h>

#include "tessera/checkpoint/testing/small_checkpoint.hpp"
#include "tessera/checkpoint/tools/summary.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::HasSubstr;

class TorchDistributedCheckpoint : public Binary {
 protected:
  // What our reader says, as one plain file.
  void write_expected(const std::string& folder) const {
    checkpoint::Checkpoint from(folder);
    std::map<std::string, std::vector<std::byte>> bytes;
    std::map<std::string, checkpoint::TensorBytes> tensors;
    for (const auto& [name, tensor] : from.manifest().tensors) {
      bytes[name] = checkpoint::read_whole(from, name);
      tensors[name] = {tensor.dtype, tensor.shape, bytes[name]};
    }
    checkpoint::write_safetensors(path("expected.safetensors"), tensors);
  }

  Outcome load(const std::string& folder) const {
    write_expected(folder);
    return shell(cat(".venv/bin/python tests/reference/dcp.py ", folder, " ", path("expected.safetensors")));
  }
};

TEST_F(TorchDistributedCheckpoint, LoadsWhatFourRanksUnderZeroSaved) {
  const Outcome trained =
      tessera(cat("train ", path("run.toml"), " --out ", path("out"), " --procs 4 training.steps=2 ",
                  "checkpoint.every=2 layout.dp_shard=4 layout.zero=1 model.hidden=56"));
  ASSERT_EQ(trained.code, 0) << trained.out;
  const std::string folder = checkpoint::step_folder(path("out/checkpoints"), 2).path;
  const checkpoint::Manifest manifest = checkpoint::Checkpoint(folder).manifest();
  EXPECT_EQ(checkpoint::num_ranks(manifest), 4);
  bool is_row_cut = false;
  for (const checkpoint::Piece& piece : manifest.pieces)
    is_row_cut |=
        piece.box.extent.size() == 2 && piece.box.extent[1] < manifest.tensors.at(piece.tensor).shape[1];
  EXPECT_TRUE(is_row_cut) << "no piece is cut inside a row";
  const Outcome loaded = load(folder);
  EXPECT_EQ(loaded.code, 0) << loaded.out;
  EXPECT_THAT(loaded.out,
              HasSubstr(cat("whole: ", manifest.tensors.size(), " tensors are equal bit by bit")));
  EXPECT_THAT(loaded.out, HasSubstr("sharded along dim 1 on 2 ranks"));
}

TEST_F(TorchDistributedCheckpoint, LoadsScalarsEmptyTensorsAndOtherDtypes) {
  checkpoint::save_small(path("checkpoints"), 1, 4);
  const Outcome loaded = load(checkpoint::step_folder(path("checkpoints"), 1).path);
  EXPECT_EQ(loaded.code, 0) << loaded.out;
  EXPECT_THAT(loaded.out, HasSubstr("whole: 18 tensors"));
  EXPECT_THAT(loaded.out, HasSubstr("sharded along dim 2 on 2 ranks: 2 tensors"));
}

}  // namespace
}  // namespace tessera::cli
