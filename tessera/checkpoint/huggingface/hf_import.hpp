// Makes a checkpoint from a Hugging Face folder: its parameters unfused, in their dtype, without optimizer
// state; all else of it attached, so that hf_export.hpp can write the very same files again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/checkpoint/huggingface/parameter_places.hpp"

namespace tessera::checkpoint {

// Attachments: files as they are, and of each safetensors file its header and the tensors that are no
// parameters.
inline constexpr char kAttachedPrefix[] = "huggingface/", kHeaderPrefix[] = "safetensors/";
inline constexpr char kHeaderSuffix[] = ".header", kSurplusSuffix[] = ".surplus";

struct ImportSummary {
  std::size_t num_tensors = 0, num_files = 0;  // parameters; files kept as they are
  std::uint64_t bytes = 0;                     // of parameters
  std::vector<std::string> left_out;           // folders inside
};

// `parameters`: those of the model in its config.json. Nothing outside of `from` is opened, unless links are
// followed. Memory: a block of one tensor. Throws UserError if they do not fit, if `to` exists, or if the
// disk refuses; then nothing of `to` is there.
ImportSummary import_folder(const std::string& from, const std::string& to,
                            std::span<const Wanted> parameters, const std::string& version, const Told& told,
                            Links links = Links::refused);

}  // namespace tessera::checkpoint
