#include "tessera/checkpoint/tools/reshard.hpp"

#include "tessera/base/clock.hpp"
#include "tessera/checkpoint/tools/summary.hpp"
#include "tessera/cli/commands/checkpoint_output.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/field.hpp"

namespace tessera::cli {

int checkpoint_reshard_command(const Options& options) {
  const CheckpointOptions& own = options.checkpoint;
  const double start = now_seconds();
  checkpoint::Checkpoint from = opened_checkpoint(own.folder, own.links);
  {
    metrics::ProgressBar bar("resharding");
    checkpoint::reshard(from, own.second, {.num_ranks = own.ranks, .parameters_only = own.parameters_only},
                        bar.progress());
  }
  const double seconds = now_seconds() - start;
  const checkpoint::Checkpoint made(own.second);
  const auto bytes = checkpoint::total_bytes(made.manifest());
  const auto before = checkpoint::num_ranks(from.manifest()), after = checkpoint::num_ranks(made.manifest());
  if (options.json) {
    print_lines(metrics::json_object(metrics::Record{{"folder", own.second},
                                                     {"ranks_before", before},
                                                     {"ranks", after},
                                                     {"files", std::ssize(made.manifest().files)},
                                                     {"bytes", static_cast<std::int64_t>(bytes)},
                                                     {"seconds", seconds}}));
  } else {
    print_lines(cat(own.second, ": ", before, " -> ", after, " shards, ", size_text(bytes), " in ",
                    made.manifest().files.size(), " files, ", duration_text(seconds), " (",
                    size_text(static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds)), "/s)\n"));
  }
  return 0;
}

}  // namespace tessera::cli
