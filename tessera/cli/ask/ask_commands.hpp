// What a model is asked: `tessera generate` and `tessera evaluate`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/files/folder_file.hpp"
#include "tessera/generate/sampling.hpp"
#include "tessera/job/ranks.hpp"

namespace CLI {
class App;
}

namespace tessera::cli {

// The folder of the model is the job's `file`.
struct AskOptions : job::JobOptions {
  int (*command)(const AskOptions&) = nullptr;  // which one was asked for
  std::string tokenizer;                        // empty: that of the model
  std::int64_t batch = 8;                       // texts side by side
  Links links = Links::refused;
  bool json = false;
  // generate
  std::string prompt, prompts;  // a text, or a file with one on each line
  bool chat = false;
  std::string chat_template;  // empty: that of the model
  std::int64_t tokens = 128;
  std::vector<std::string> stops, ends;
  generate::Sampling sampling;
  // evaluate
  std::string data;       // a pair, or a text; empty: what the run held out
  std::string questions;  // multiple choice
  std::string delimiter = " ";
};

int generate_command(const AskOptions& options);
int evaluate_command(const AskOptions& options);

// Adds both; the one that is parsed is then options.command.
void add_ask_commands(CLI::App& app, AskOptions& options);

}  // namespace tessera::cli
