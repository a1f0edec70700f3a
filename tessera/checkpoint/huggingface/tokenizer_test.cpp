#include "tessera/checkpoint/huggingface/tokenizer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/text.hpp"

namespace tessera::checkpoint {
namespace {

TEST(Tokenizer, IsFoundInAFolder) {
  const std::string folder = cat(testing::TempDir(), "tessera_tokenizer_", ::getpid());
  std::filesystem::create_directories(folder);
  EXPECT_EQ(tokenizer_in(folder), std::nullopt);
  EXPECT_EQ(tokenizer_in(folder + "/gone"), std::nullopt);
  std::ofstream(folder + "/merges.txt") << "a b";
  EXPECT_EQ(tokenizer_in(folder), "merges.txt");
  std::filesystem::remove_all(folder);
}

TEST(Tokenizer, TravelsWithTheCheckpointsOfARun) {
  namespace fs = std::filesystem;
  const fs::path folder = cat(testing::TempDir(), "tessera_kept_tokenizer_", ::getpid());
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  };
  write("model/tokenizer.json", "{}");
  write("model/chat_template.jinja", "{{ messages }}");
  write("model/model.safetensors", "weights");
  const std::string checkpoints = folder / "run/checkpoints", step = checkpoints + "/step-000000010/";
  write("run/checkpoints/step-000000010/manifest.json", "{}");
  EXPECT_EQ(tokenizer_folder(step), std::nullopt);
  keep_tokenizer(folder / "model", checkpoints, Links::refused);
  ASSERT_EQ(tokenizer_folder(step), checkpoints + "/tokenizer");
  const auto text = [&](const std::string& name) { return file_text(checkpoints + "/tokenizer/" + name); };
  EXPECT_EQ(text("tokenizer.json"), "{}");
  EXPECT_EQ(text("chat_template.jinja"), "{{ messages }}");
  EXPECT_FALSE(fs::exists(checkpoints + "/tokenizer/model.safetensors"));
  // A single file gets the name by which a folder's tokenizer is found, and brings no other tokenizer along.
  write("other/mine.json", "{\"mine\": 1}");
  write("other/tokenizer.json", "{}");
  keep_tokenizer(folder / "other/mine.json", checkpoints, Links::refused);
  EXPECT_EQ(text("tokenizer.json"), "{\"mine\": 1}");
  // So does one that is named without its folder.
  const fs::path before = fs::current_path();
  write("bare.json", "{\"bare\": 1}");
  fs::current_path(folder);
  keep_tokenizer("bare.json", checkpoints, Links::refused);
  fs::current_path(before);
  EXPECT_EQ(text("tokenizer.json"), "{\"bare\": 1}");
  keep_tokenizer(folder / "other/mine.json", checkpoints, Links::refused);
  // What is kept may be the source.
  keep_tokenizer(checkpoints + "/tokenizer", checkpoints, Links::refused);
  EXPECT_EQ(text("tokenizer.json"), "{\"mine\": 1}");
  // A link would let a stranger's folder pick any file of this machine.
  fs::remove(folder / "model/chat_template.jinja");
  fs::create_symlink(folder / "other/mine.json", folder / "model/chat_template.jinja");
  EXPECT_THROW(keep_tokenizer(folder / "model", checkpoints, Links::refused), UserError);
  // The files of an import go before what a run keeps.
  write("run/checkpoints/step-000000010/huggingface/tokenizer.model", "pieces");
  EXPECT_EQ(tokenizer_folder(step), step + "/huggingface/");
  EXPECT_EQ(kept_tokenizer(step), checkpoints + "/tokenizer");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tessera::checkpoint
