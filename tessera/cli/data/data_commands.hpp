// `tessera data`: text to tokens, and what there is to do with pairs of .bin and .idx. Nothing here needs
// LibTorch.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tessera::cli {

struct DataOptions {
  int (*command)(const DataOptions&, std::ostream&) = nullptr;  // which one was asked for
  std::vector<std::string> names;                               // files to tokenize, or pairs
  std::string output;
  std::string tokenizer;
  std::string records = "text", field = "text", format = "auto", documents_end = "line";
  std::string chat_template;
  std::string end_of_document;  // a token of the vocabulary; empty: none is appended
  bool skip_broken = false;
  int threads = 0;                    // 0: as many as there are cores
  std::int64_t vocabulary = 0;        // verify: tokens must be below; 0: not asked
  std::int64_t sequence = 0;          // inspect: how documents would be packed; 0: not asked
  std::uint64_t count = 3, seed = 1;  // sample
  bool json = false;
};

// Each prints what a person or (--json) a machine reads and returns the exit code.
int data_tokenize_command(const DataOptions& options, std::ostream& out);
int data_inspect_command(const DataOptions& options, std::ostream& out);
int data_verify_command(const DataOptions& options, std::ostream& out);
int data_merge_command(const DataOptions& options, std::ostream& out);
int data_sample_command(const DataOptions& options, std::ostream& out);

// Adds `data` and its subcommands; the one that is parsed is then options.command.
void add_data_commands(CLI::App& app, DataOptions& options);

}  // namespace tessera::cli
