#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/huggingface/hf_export.hpp"
#include "tessera/cli/commands/checkpoint_output.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::cli {

namespace {

std::string stored_word(const std::string& dtype) {
  if (dtype.empty()) return "";
  return dtype == "bf16" ? "BF16" : dtype == "fp16" ? "F16" : "F32";
}

// Where the run says that it began from. It is only told, never opened: the checkpoint may be somebody
// else's.
std::string place_of_start(const checkpoint::Manifest& manifest) {
  return manifest.config.empty()
             ? ""
             : spec::parse_unchecked(manifest.config, "the checkpoint's run file").model.weights;
}

std::string to_text(const checkpoint::ExportSummary& made, const std::string& folder,
                    const std::string& start, double seconds) {
  return cat(folder, ": ", made.num_tensors, " tensors, ", size_text(made.bytes),
             made.dtype.empty() ? "" : " as ", made.dtype, " in ", made.num_shards,
             made.num_shards == 1 ? " file, " : " shards, ", duration_text(seconds), "\n",
             made.files_from.empty()
                 ? cat("config.json is made from the run file; there is no tokenizer to copy",
                       start.empty() ? ""
                                     : cat(" (the run began from ", start,
                                           "; --like takes the other files of a folder)"),
                       "\n")
                 : cat(made.num_files, made.num_files == 1 ? " other file from " : " other files from ",
                       made.files_from, "\n"));
}

}  // namespace

int checkpoint_export_command(const Options& options) {
  const CheckpointOptions& own = options.checkpoint;
  const double start = now_seconds();
  checkpoint::Checkpoint from = opened_checkpoint(own.folder, own.links);
  checkpoint::ExportSummary made;
  {
    metrics::ProgressBar bar("exporting");
    made = checkpoint::export_folder(from, own.second,
                                     {.dtype = stored_word(own.dtype), .like = own.like, .links = own.links},
                                     bar.progress());
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
    print_lines(to_text(made, own.second, place_of_start(from.manifest()), seconds));
  return 0;
}

}  // namespace tessera::cli
