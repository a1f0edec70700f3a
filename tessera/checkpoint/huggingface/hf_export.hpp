// Writes a checkpoint as a folder that `transformers` opens. An import that was not trained gives back the
// files it came from, byte by byte; any other is written in shards with the config of its model.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/checkpoint/huggingface/hf_import.hpp"

namespace tessera::checkpoint {

struct ExportOptions {
  std::string dtype;  // "F32", "BF16", "F16"; empty: as the config says, else F32
  std::string
      like;  // a folder whose config.json and other files are taken; empty: what is attached, if anything
  Links links = Links::refused;  // of `like`
  std::uint64_t most_shard_bytes = 5'000'000'000;
};

struct ExportSummary {
  std::size_t num_tensors = 0, num_shards = 0, num_files = 0;  // files: all besides the shards
  std::uint64_t bytes = 0;                                     // of tensors
  std::string dtype;                                           // empty: as they were imported
  std::string files_from;  // where the other files come from; empty: made here
};

// Memory: a block of one tensor. Throws UserError if the model has no place in transformers, if the config of
// `like` is another model's, if `to` exists or the disk refuses; then nothing of `to` is there.
ExportSummary export_folder(Checkpoint& from, const std::string& to, const ExportOptions& options,
                            const Told& told);

}  // namespace tessera::checkpoint
