#include "tessera/cli/tokenizer/tokenizer_commands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tessera/base/testing/test_folder.hpp"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

TEST(TokenizerCommands, ShowPrintsEachTokenWithVisibleSpaces) {
  std::ostringstream out;
  EXPECT_EQ(tokenizer_show({.text = "a b\n", .tokenizer = "bytes"}, out), 0);
  EXPECT_THAT(out.str(), HasSubstr("32  \u00B7"));
  EXPECT_THAT(out.str(), HasSubstr("10  \\n"));
  EXPECT_THAT(out.str(),
              HasSubstr("4 tokens of 4 bytes; the vocabulary has 256; decoding gives the text back"));
}

TEST(TokenizerCommands, ShowPrintsJson) {
  std::ostringstream out;
  EXPECT_EQ(tokenizer_show({.text = "a", .tokenizer = "bytes", .json = true}, out), 0);
  EXPECT_THAT(out.str(), HasSubstr("\"tokens\": [{\"token\": 97, \"entry\": \"a\", \"text\": \"a\"}]"));
}

TEST(TokenizerCommands, WhatIsLearnedCanBeShown) {
  const TestFolder folder;
  const std::string text = folder.write("text", "low low lower lowest\nlow low\n"),
                    file = folder.path("new/folder/t.json");
  std::ostringstream learned, shown;
  EXPECT_EQ(tokenizer_learn({.texts = {text}, .out = file, .vocabulary = 260}, learned), 0);
  EXPECT_THAT(learned.str(), HasSubstr("260 tokens, 3 merges"));
  EXPECT_EQ(tokenizer_show({.text = " low", .tokenizer = file}, shown), 0);
  EXPECT_THAT(shown.str(), HasSubstr("\u00B7low"));
  EXPECT_THAT(shown.str(), HasSubstr("1 tokens of 4 bytes"));
}

}  // namespace
}  // namespace tessera::cli
