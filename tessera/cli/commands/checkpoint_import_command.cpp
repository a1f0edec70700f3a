#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/version.hpp"
#include "tessera/checkpoint/huggingface/hf_import.hpp"
#include "tessera/cli/commands/checkpoint_output.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/families/families.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::cli {

namespace {

// Of the model in the folder's config.json.
std::vector<checkpoint::Wanted> parameters_of(const std::string& folder, Links links) {
  const auto described = checkpoint::described_folder(folder, links);
  if (!described)
    throw UserError(cat("'", folder, "' is no folder: name one with config.json and safetensors files"));
  spec::Run run;
  run.model = described->model;
  // Only learnt positions are a parameter; a long context is not to be counted as memory here.
  run.model.sequence = spec::traits(run.model.family).no_rotary.empty() ? 1 : described->max_positions;
  spec::validate(run);
  std::vector<checkpoint::Wanted> out;
  for (const auto& bucket : plan::describe(families::step_request(run)).buckets)
    for (const auto& parameter : bucket.parameters) out.push_back({parameter.name, parameter.shape});
  return out;
}

}  // namespace

int checkpoint_import_command(const Options& options) {
  const CheckpointOptions& own = options.checkpoint;
  const double start = now_seconds();
  const auto parameters = parameters_of(own.folder, own.links);
  checkpoint::ImportSummary made;
  {
    metrics::ProgressBar bar("importing");
    made = checkpoint::import_folder(own.folder, own.second, parameters, kVersion, bar.progress(), own.links);
  }
  const double seconds = now_seconds() - start;
  if (options.json) {
    print_lines(
        metrics::json_object(metrics::Record{{"folder", own.second},
                                             {"tensors", static_cast<std::int64_t>(made.num_tensors)},
                                             {"bytes", static_cast<std::int64_t>(made.bytes)},
                                             {"files_kept", static_cast<std::int64_t>(made.num_files)},
                                             {"left_out", join(made.left_out, ", ")},
                                             {"seconds", seconds}}));
    return 0;
  }
  print_lines(cat(own.second, ": ", made.num_tensors, " parameters, ", size_text(made.bytes), ", and ",
                  made.num_files, made.num_files == 1 ? " other file of " : " other files of ", own.folder,
                  ", ", duration_text(seconds), "\n",
                  made.left_out.empty() ? "" : cat("folders left out: ", join(made.left_out, ", "), "\n")));
  return 0;
}

}  // namespace tessera::cli
