#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/tools/summary.hpp"
#include "tessera/cli/commands/checkpoint_output.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/field.hpp"

namespace tessera::cli {
namespace {

struct Verified {
  std::string folder;
  std::vector<std::string> problems;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

Verified verified(const std::string& folder, Links links) {
  Verified out{.folder = folder};
  const double start = now_seconds();
  metrics::ProgressBar bar("verifying");
  const auto told = [&](std::uint64_t done, std::uint64_t all) {
    out.bytes = all;
    bar.update(done, all);
  };
  out.problems = checkpoint::problems_of(folder, told, links);
  out.seconds = now_seconds() - start;
  return out;
}

std::string to_text(const Verified& verified) {
  std::string out = cat(verified.folder, ": ");
  if (verified.problems.empty())
    return cat(out, "whole; ", size_text(verified.bytes), " read in ", duration_text(verified.seconds), " (",
               size_text(static_cast<std::uint64_t>(static_cast<double>(verified.bytes) / verified.seconds)),
               "/s)\n");
  out +=
      cat("DAMAGED, ", verified.problems.size(), " problem", verified.problems.size() == 1 ? "" : "s", "\n");
  for (const std::string& problem : verified.problems) out += cat("  ", problem, "\n");
  return out;
}

std::vector<std::string> folders_of(const std::string& folder) {
  std::vector<std::string> out;
  if (!checkpoint::is_checkpoint(folder))
    for (const auto& listed : checkpoint::listed_checkpoints(folder)) out.push_back(listed.folder.path);
  return out.empty() ? std::vector{folder} : out;
}

}  // namespace

int checkpoint_verify_command(const Options& options) {
  bool good = true;
  std::vector<metrics::Record> records;
  for (const std::string& folder : folders_of(options.checkpoint.folder)) {
    const Verified each = verified(folder, options.checkpoint.links);
    good = good && each.problems.empty();
    if (!options.json) print_lines(to_text(each));
    records.push_back({{"folder", each.folder},
                       {"whole", each.problems.empty()},
                       {"problems", each.problems},
                       {"bytes", static_cast<std::int64_t>(each.bytes)},
                       {"seconds", each.seconds}});
  }
  if (options.json)
    print_lines(metrics::json_object(metrics::Record{{"whole", good}, {"checkpoints", records}}));
  return good ? 0 : kExitNo;
}

}  // namespace tessera::cli
