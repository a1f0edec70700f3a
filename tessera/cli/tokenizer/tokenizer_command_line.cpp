#include <CLI/CLI.hpp>

#include "tessera/cli/tokenizer/tokenizer_commands.hpp"

namespace tessera::cli {
namespace {

void add_learn(CLI::App& parent, TokenizerOptions& options) {
  auto* learn = parent.add_subcommand("learn", "make a byte-level tokenizer.json from texts");
  TokenizerLearnOptions& out = options.learn;
  learn->add_option("texts", out.texts, "files of UTF-8 text")->required();
  learn->add_option("--out", out.out, "the file to write")->capture_default_str();
  learn->add_option("--vocabulary", out.vocabulary, "tokens: special ones, 256 bytes, and merged ones")
      ->capture_default_str();
  learn->add_option("--split", out.split, "how texts are split into words: gpt2, llama3 or qwen2")
      ->capture_default_str();
  learn->add_option("--special", out.special, "a special token, once for each (default: <|endoftext|>)");
  learn->add_option("--least-count", out.least_count, "how often a pair must stand in the texts")
      ->capture_default_str();
  learn->add_option("--threads", out.threads, "that count words (default: one for each core)")
      ->check(CLI::Range(1, 1024));
  learn->add_flag("--json", out.json, "print one JSON object (docs/json.md)");
  learn->callback([&options] {
    options.command = [](const TokenizerOptions& given, std::ostream& to) {
      return tokenizer_learn(given.learn, to);
    };
  });
}

void add_show(CLI::App& parent, TokenizerOptions& options) {
  auto* show = parent.add_subcommand("show", "print the tokens of a text");
  TokenizerShowOptions& out = options.show;
  show->add_option("text", out.text, "the text")->required();
  show->add_option("--tokenizer", out.tokenizer,
                   "a tokenizer.json, a folder with one, a SentencePiece .model, or the word bytes")
      ->capture_default_str();
  show->add_flag("--special", out.special, "with the special tokens before and after a text");
  show->add_flag("--json", out.json, "print one JSON object (docs/json.md)");
  show->callback([&options] {
    options.command = [](const TokenizerOptions& given, std::ostream& to) {
      return tokenizer_show(given.show, to);
    };
  });
}

}  // namespace

void add_tokenizer_commands(CLI::App& app, TokenizerOptions& options) {
  auto* parent =
      app.add_subcommand("tokenizer", "learn a tokenizer from text, and show what one makes of a text");
  parent->require_subcommand(1);
  add_learn(*parent, options);
  add_show(*parent, options);
}

}  // namespace tessera::cli
