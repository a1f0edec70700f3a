#include <filesystem>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/hf_export.hpp"
#include "tessera/cli/checkpoint_words.hpp"
#include "tessera/cli/commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::cli {

namespace {

std::string stored_word(const std::string& dtype) {
  if (dtype.empty()) return "";
  return dtype == "bf16" ? "BF16" : dtype == "fp16" ? "F16" : "F32";
}

// Where a run began from, if that is a folder with tokenizer and config and nothing else was asked for.
std::string folder_of_start(const checkpoint::Manifest& manifest) {
  if (manifest.config.empty()) return "";
  const std::string weights = spec::parse(manifest.config, "the checkpoint's run file").model.weights;
  return std::filesystem::is_directory(weights) ? weights : "";
}

bool has_attached_files(const checkpoint::Manifest& manifest) {
  for (const auto& file : manifest.files)
    if (file.name.starts_with(checkpoint::kAttachedPrefix)) return true;
  return false;
}

std::string to_text(const checkpoint::ExportSummary& made, const std::string& folder, double seconds) {
  return cat(folder, ": ", made.num_tensors, " tensors, ", size_text(made.bytes),
             made.dtype.empty() ? "" : " as ", made.dtype, " in ", made.num_shards,
             made.num_shards == 1 ? " file, " : " shards, ", duration_text(seconds), "\n",
             made.files_from.empty()
                 ? "config.json is made from the run file; there is no tokenizer to copy\n"
                 : cat(made.num_files, made.num_files == 1 ? " other file from " : " other files from ",
                       made.files_from, "\n"));
}

}  // namespace

int checkpoint_export_command(const Options& options) {
  const CheckpointOptions& own = options.checkpoint;
  const double start = now_seconds();
  checkpoint::Checkpoint from = opened_checkpoint(own.folder);
  std::string like = own.like;
  if (like.empty() && !has_attached_files(from.manifest())) like = folder_of_start(from.manifest());
  checkpoint::ExportSummary made;
  {
    metrics::ProgressBar bar("exporting");
    made = checkpoint::export_folder(from, own.second, {.dtype = stored_word(own.dtype), .like = like},
                                     told_on(bar));
  }
  const double seconds = now_seconds() - start;
  if (options.json)
    print_lines(metrics::json_object(metrics::Record{{"folder", own.second},
                                                     {"tensors", static_cast<std::int64_t>(made.num_tensors)},
                                                     {"bytes", static_cast<std::int64_t>(made.bytes)},
                                                     {"dtype", made.dtype},
                                                     {"shards", static_cast<std::int64_t>(made.num_shards)},
                                                     {"files", static_cast<std::int64_t>(made.num_files)},
                                                     {"files_from", made.files_from},
                                                     {"seconds", seconds}}));
  else
    print_lines(to_text(made, own.second, seconds));
  return 0;
}

}  // namespace tessera::cli
