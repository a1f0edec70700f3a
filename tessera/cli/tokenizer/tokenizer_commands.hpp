// `tessera tokenizer`: learns a tokenizer from text, and shows what one makes of a text.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tessera::cli {

struct TokenizerLearnOptions {
  std::vector<std::string> texts;  // files
  std::string out = "tokenizer.json";
  std::int64_t vocabulary = 8192;
  std::string split = "llama3";
  std::vector<std::string> special;  // none: <|endoftext|>
  std::int64_t least_count = 2;
  int threads = 0;  // 0: as many as there are cores
  bool json = false;
};

struct TokenizerShowOptions {
  std::string text;
  std::string tokenizer = "tokenizer.json";  // or a folder, a .model, "bytes"
  bool special = false;                      // with what stands before and after a text
  bool json = false;
};

// Both write for a person, or one JSON object, and return the exit code.
int tokenizer_learn(const TokenizerLearnOptions& options, std::ostream& out);
int tokenizer_show(const TokenizerShowOptions& options, std::ostream& out);

struct TokenizerOptions {
  int (*command)(const TokenizerOptions&, std::ostream&) = nullptr;  // which one was asked for
  TokenizerLearnOptions learn;
  TokenizerShowOptions show;
};

// Adds `tokenizer` and its subcommands; the one that is parsed is then options.command.
void add_tokenizer_commands(CLI::App& app, TokenizerOptions& options);

}  // namespace tessera::cli
