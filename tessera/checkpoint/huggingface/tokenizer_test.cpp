#include "tessera/checkpoint/huggingface/tokenizer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/text.hpp"

namespace tessera::checkpoint {
namespace {

TEST(Tokenizer, IsFoundInAFolderAndAmongWhatAnImportKept) {
  const std::string folder = cat(testing::TempDir(), "tessera_tokenizer_", ::getpid());
  std::filesystem::create_directories(folder);
  EXPECT_EQ(tokenizer_in(folder), std::nullopt);
  EXPECT_EQ(tokenizer_in(folder + "/gone"), std::nullopt);
  std::ofstream(folder + "/merges.txt") << "a b";
  EXPECT_EQ(tokenizer_in(folder), "merges.txt");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(tokenizer_attached({.files = {{"huggingface/config.json"}, {"rank-00000.safetensors"}}}),
            std::nullopt);
  EXPECT_EQ(tokenizer_attached({.files = {{"huggingface/config.json"}, {"huggingface/tokenizer.model"}}}),
            "tokenizer.model");
}

}  // namespace
}  // namespace tessera::checkpoint
