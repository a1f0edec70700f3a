// `tessera data` as a user types it, on files of a few lines. Costs about 0.5 s.
#include "tessera/cli/data/data_commands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <sstream>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/data/indexed/indexed_file.hpp"

namespace tessera::cli {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class DataCommands : public testing::Test {
 protected:
  // What `tessera data <words>` prints; @ stands for the folder.
  std::string run(std::string words, int expected_code = 0) {
    for (std::size_t at; (at = words.find('@')) != words.npos;) words.replace(at, 1, folder_.path(""));
    DataOptions options;
    CLI::App app;
    add_data_commands(app, options);
    app.parse("data " + words);
    std::ostringstream out;
    EXPECT_EQ(options.command(options, out), expected_code) << words;
    return out.str();
  }
  void file(const std::string& name, const std::string& text) const { folder_.write(name, text); }

  TestFolder folder_;
};

TEST_F(DataCommands, TextIsTokenizedInspectedVerifiedSampledAndMerged) {
  file("a.txt", "one\ntwo words\n\nthree\n");
  EXPECT_THAT(run("tokenize @a.txt -o @a --tokenizer bytes --append ."),
              testing::AllOf(HasSubstr("3 documents, 20 tokens of 17 B of text (0.85 bytes a token)"),
                             HasSubstr("8 to 15          1  ####")));
  EXPECT_THAT(
      run("inspect @a --sequence 10"),
      testing::AllOf(HasSubstr("3 documents, 20 tokens as u16\n"),
                     HasSubstr("packed to 10 tokens: 1 samples cut, or 2 by best fit, 100.0 % filled")));
  EXPECT_THAT(run("inspect @a --json"),
              HasSubstr("\"documents\": 3, \"sequences\": 3, \"tokens\": 20, \"mask\": false"));
  EXPECT_THAT(run("verify @a --vocabulary 256"), HasSubstr("a: whole; 20 tokens, the largest is 119\n"));
  EXPECT_THAT(run("verify @a --vocabulary 100", kExitNo),
              HasSubstr("holds token 119, and the vocabulary has 100"));
  const std::string sampled = run("sample @a --tokenizer bytes --count 9");
  for (const char* text : {"4 tokens\none.\n", "10 tokens\ntwo words.\n", "6 tokens\nthree.\n"})
    EXPECT_THAT(sampled, HasSubstr(text));
  EXPECT_THAT(run("merge @a @a -o @b"), HasSubstr("6 documents, 40 tokens"));
  EXPECT_EQ(file_text(folder_.path("b.bin")),
            file_text(folder_.path("a.bin")) + file_text(folder_.path("a.bin")));
  run("verify @b");
  std::filesystem::resize_file(folder_.path("a.bin"), 10);
  EXPECT_THAT(run("verify @a @b", kExitNo), testing::AllOf(HasSubstr("a: DAMAGED"), HasSubstr("b: whole")));
}

TEST_F(DataCommands, ConversationsAreMadeByATemplateOfAModel) {
  file("c.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
                  "\n");
  file("tokenizer_config.json",
       R"({"eos_token": {"content": "$"}, "bos_token": "^", "chat_template":)"
       R"( "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"})");
  EXPECT_THAT(run("tokenize @c.jsonl -o @c --tokenizer bytes --records messages --chat-template "
                  "@tokenizer_config.json"),
              HasSubstr("2 of them count in the loss"));
  EXPECT_THAT(run("sample @c --tokenizer bytes"), HasSubstr("^a$b$"));
  EXPECT_THAT(run("inspect @c"), HasSubstr("with a mask"));
  run("merge @c @c -o @d");
  EXPECT_TRUE(data::is_pair(folder_.path("d.mask")));
}

TEST_F(DataCommands, WhatTheOptionsLackIsSaid) {
  file("a.txt", "a\n"), file("a.jsonl", "{}\n"), file("a.parquet", "PAR1");
  const auto refused = [&](const std::string& words, const std::string& part) {
    EXPECT_THAT([&] { run("tokenize -o @x --tokenizer bytes " + words); },
                ThrowsMessage<UserError>(HasSubstr(part)));
  };
  refused("@a.txt @a.jsonl", "say which with --format");
  refused("@a.txt --records messages", "reads JSON lines");
  refused("@a.jsonl --records messages", "needs --chat-template");
  refused("@a.jsonl --records messages --chat-template alpaca", "or one of chatml, llama3 and mistral");
  refused("@a.txt --append </s>", "the vocabulary has no such token");
  refused("@a.parquet", ".parquet files are not read");
  refused("@a.jsonl", "it has no field \"text\"; it has none");
}

}  // namespace
}  // namespace tessera::cli
