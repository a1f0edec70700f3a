#include "tessera/checkpoint/huggingface/tensor_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/huggingface/hf_config.hpp"

namespace tessera::checkpoint {
namespace {

using testing::HasSubstr;

class TensorFilesTest : public testing::Test {
 protected:
  TensorFilesTest() : folder_(cat(testing::TempDir(), "tessera_tensor_files_", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~TensorFilesTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return cat(folder_, "/", name); }
  void shard(const std::string& name, const std::vector<std::string>& tensors) const {
    std::map<std::string, TensorBytes> held;
    for (const auto& tensor : tensors) held[tensor] = {"F32", {2}, std::as_bytes(std::span(numbers_))};
    write_safetensors(path(name), held);
  }
  void index(const std::string& text) const { std::ofstream(path(kIndexName)) << text; }
  std::string complaint() const {
    return complaint_of([&] { const TensorFiles files(folder_); });
  }

  std::vector<float> numbers_ = {1, 2};
  std::string folder_;
};

TEST_F(TensorFilesTest, AreAFileAFolderWithOneOrShardsWithAnIndex) {
  shard("model.safetensors", {"a", "b"});
  EXPECT_EQ(TensorFiles(path("model.safetensors")).tensors().size(), 2u);
  EXPECT_EQ(TensorFiles(folder_).tensors().size(), 2u);
  shard("model-00001-of-00002.safetensors", {"a"});
  shard("model-00002-of-00002.safetensors", {"b", "c"});
  index(R"({"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors",
    "b": "model-00002-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"}})");
  const TensorFiles files(folder_);
  EXPECT_EQ(files.files().size(), 2u);
  EXPECT_EQ(files.tensor("c").bytes.size(), 8u);
  EXPECT_THAT(complaint_of([&] { files.tensor("cc"); }), HasSubstr("has a tensor 'cc'; did you mean"));
}

TEST_F(TensorFilesTest, WhoseIndexLeavesTheFolderOrLiesAreRefused) {
  EXPECT_THAT(complaint(), HasSubstr("has neither model.safetensors nor model.safetensors.index.json"));
  shard("s.safetensors", {"a"});
  for (const char* name : {"../s.safetensors", "/tmp/s.safetensors", "x/s.safetensors", ".s.safetensors",
                           "s.bin", "", "..\\\\s.safetensors", "s.safetensors\\u0000/x.safetensors"}) {
    index(cat(R"({"weight_map": {"a": ")", name, R"("}})"));
    EXPECT_THAT(complaint(), HasSubstr("shards lie beside their index")) << name;
  }
  index(R"({"weight_map": {"a": "s.safetensors", "b": "s.safetensors"}})");
  EXPECT_THAT(complaint(), HasSubstr("says that s.safetensors holds 'b', which it does not"));
  shard("t.safetensors", {"a", "b"});
  index(R"({"weight_map": {"a": "s.safetensors", "b": "t.safetensors"}})");
  EXPECT_THAT(complaint(), HasSubstr("t.safetensors holds 'a', which another file of the folder holds too"));
  for (const char* text : {"", "[]", "{}", R"({"weight_map": 1})", R"({"weight_map": {"a": 1}})"}) {
    index(text);
    EXPECT_THAT(complaint(), HasSubstr(kIndexName)) << text;
  }
}

TEST_F(TensorFilesTest, WhoseIndexIsNestedToOverwhelmAReaderAreRefused) {
  index("{\"weight_map\":" + std::string(1'000'000, '[') + "}");
  EXPECT_THAT(complaint(), HasSubstr("nested deeper"));
}

TEST_F(TensorFilesTest, OfAFolderDescribeTheModelAndAFileDoesNot) {
  shard("model.safetensors", {"a"});
  EXPECT_FALSE(described_folder(path("model.safetensors")));
  EXPECT_THAT(complaint_of([&] { described_folder(folder_); }), HasSubstr("needs a config.json"));
  const spec::Model model{.layers = 3, .sequence = 64};
  std::ofstream(path(kConfigName)) << hf_config(model, "F32");
  const auto found = described_folder(folder_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->model.layers, 3);
  EXPECT_EQ(found->max_positions, 64);
  EXPECT_EQ(found->where, path(kConfigName));
}

}  // namespace
}  // namespace tessera::checkpoint
