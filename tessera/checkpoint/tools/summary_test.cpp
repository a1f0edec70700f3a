#include "tessera/checkpoint/tools/summary.hpp"

#include <gmock/gmock.h>

#include "tessera/checkpoint/testing/small_checkpoint.hpp"

namespace tessera::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Summary = SmallCheckpoint;

TEST_F(Summary, SizesAreToldByKind) {
  Manifest manifest;
  manifest.tensors = {
      {"a", {"F32", {10, 2}}}, {"b", {"BF16", {5}}}, {"optimizer.exp_avg.a", {"F32", {10, 2}}}};
  manifest.files = {{"huggingface/config.json", 70, 0}};
  EXPECT_THAT(sizes_by_kind(manifest),
              ElementsAre(KindSize{"parameters", 2, 25, 90}, KindSize{"optimizer.exp_avg", 1, 20, 80},
                          KindSize{"attached files", 0, 0, 70}));
}

TEST_F(Summary, TensorsOfOneFormAreOneRow) {
  Manifest manifest;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    manifest.tensors[name] = tensor;
    manifest.pieces.push_back({name, whole_box(tensor.shape), 0, 0});
  };
  for (int layer = 0; layer < 12; ++layer) {
    add(cat("model.layers.", layer, ".up.weight"), {"F32", {8, layer == 5 ? 4 : 2}});
    add(cat("optimizer.exp_avg.model.layers.", layer, ".up.weight"), {"F32", {8, layer == 5 ? 4 : 2}});
  }
  add("norm2.weight", {"F32", {3}});
  EXPECT_THAT(tensor_groups(manifest, true),
              ElementsAre(TensorGroup{"model.layers.{0-4,6-11}.up.weight", {"F32", {8, 2}}, 11, 11, 704, 704},
                          TensorGroup{"model.layers.5.up.weight", {"F32", {8, 4}}, 1, 1, 128, 128},
                          TensorGroup{"norm2.weight", {"F32", {3}}, 1, 1, 12, 0}));
  const auto each = tensor_groups(manifest, false);
  ASSERT_EQ(each.size(), 25u);
  EXPECT_EQ(each[9].name, "model.layers.9.up.weight");
  EXPECT_EQ(each[10].name, "model.layers.10.up.weight");
}

TEST_F(Summary, CheckpointsOfARunAreListedWithWhatIsWrong) {
  save_small(folder_ + "/checkpoints", 10, 4);
  save_small(folder_ + "/checkpoints", 20, 2);
  const std::string newest = step_folder(folder_ + "/checkpoints", 20).path;
  std::filesystem::resize_file(newest + "/rank-00001.safetensors", 10);
  for (const std::string& folder : {folder_, folder_ + "/checkpoints"}) {
    const auto listed = listed_checkpoints(folder);
    ASSERT_EQ(listed.size(), 2u);
    EXPECT_EQ(listed[0].folder.step, 20);
    EXPECT_THAT(listed[0].problem, HasSubstr("rank-00001.safetensors' has 10 bytes instead of"));
    EXPECT_EQ(listed[1].problem, "");
    EXPECT_EQ(listed[1].num_ranks, 4);
    EXPECT_GT(listed[1].bytes, 50000u);
    EXPECT_GT(listed[1].unix_seconds, 1'600'000'000);
  }
  EXPECT_FALSE(is_checkpoint(folder_));
  EXPECT_TRUE(is_checkpoint(newest));
}

}  // namespace
}  // namespace tessera::checkpoint
