// Copies the run file and the tokenizer of a run into its folder.
#pragma once

#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::train {

inline constexpr char kRunFileName[] = "run.toml";

// Nothing is kept in a folder without a name.
struct KeptIn {
  std::string folder;       // of the run
  std::string checkpoints;  // of the run
};

// Writes the whole resolved run file into the folder of the run, in the place of an older one, and copies the
// tokenizer that the run's tokens were made with: data.tokenizer, else that of its weights or of the
// checkpoint that it began with. Returns a sentence for each that the disk refuses.
std::vector<std::string> keep_run(const spec::Run& run, const KeptIn& where, const std::string& begun_from);

}  // namespace tessera::train
