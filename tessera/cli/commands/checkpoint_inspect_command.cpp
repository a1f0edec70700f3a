#include <cstdio>
#include <ctime>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/tools/summary.hpp"
#include "tessera/cli/commands/checkpoint_output.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::cli {
namespace {

using checkpoint::Checkpoint;
using checkpoint::ListedCheckpoint;
using checkpoint::Manifest;
using checkpoint::TensorGroup;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kMostFiles = 16;  // told one by one

std::int64_t whole(std::uint64_t number) { return static_cast<std::int64_t>(number); }

std::string time_text(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  char out[32] = "";
  if (::localtime_r(&time, &parts)) std::strftime(out, sizeof out, "%Y-%m-%d %H:%M:%S", &parts);
  return out;
}

// Model and layout of the run file in it, where this version can read it.
std::string run_text(const Manifest& manifest) {
  if (manifest.config.empty()) return "run     none: an import\n";
  spec::Run run;
  const std::string complaint =
      complaint_of([&] { run = spec::parse_unchecked(manifest.config, "its run file"); });
  if (!complaint.empty()) return cat("run     its file can't be read here: ", complaint, "\n");
  const spec::Model& model = run.model;
  const spec::Layout& layout = run.layout;
  std::string out = cat("model   ", spec::word(model.family), ", ", model.layers, " layers, hidden ",
                        model.hidden, ", ", model.heads, " heads, ", model.kv_heads, " of keys, ffn ",
                        model.ffn, ", vocab ", model.vocab, ", sequence ", model.sequence, "\n");
  out += cat("layout  ", layout.ranks(), " rank", layout.ranks() == 1 ? "" : "s", ": pp ", layout.pp, ", dp ",
             layout.dp(), " (", layout.dp_replicate, " x ", layout.dp_shard, "), zero ", layout.zero);
  if (layout.pp > 1) out += cat(", ", spec::schedule_name(layout));
  return out + cat(", ", spec::word(layout.precision), ", ", spec::word(run.training.optimizer), "\n");
}

std::string state_text(const Manifest& manifest) {
  const checkpoint::Progress& p = manifest.progress;
  return cat("state   step ", p.step, ", ", p.updates, " updates, next sample ", p.next_sample, ", seed ",
             p.seed, p.loss_scale > 0 ? cat(", loss scale ", p.loss_scale) : "", "\nfiles   ",
             manifest.files.size(), " of ", checkpoint::num_ranks(manifest), " shards, ",
             size_text(checkpoint::total_bytes(manifest)), ", by Tessera ", manifest.written_by, "\n");
}

std::string tensors_text(const Manifest& manifest, bool all) {
  Rows rows = {{all ? "tensor" : "parameter", "dtype", "shape", "pieces", "bytes"}};
  if (!all) rows[0].insert(rows[0].begin() + 1, "count"), rows[0].emplace_back("state");
  for (const TensorGroup& group : checkpoint::tensor_groups(manifest, !all)) {
    auto& row = rows.emplace_back(std::vector{group.name, group.tensor.dtype, shape_text(group.tensor.shape),
                                              cat(group.pieces), size_text(group.bytes)});
    if (all) continue;
    row.insert(row.begin() + 1, cat(group.count));
    row.push_back(group.state_bytes > 0 ? size_text(group.state_bytes) : "");
  }
  return table(rows);
}

std::string files_text(const Manifest& manifest, bool all) {
  Rows rows = {{"file", "pieces", "bytes"}};
  const auto pieces = checkpoint::pieces_by_file(manifest);
  const std::size_t shown = all ? pieces.size() : std::min(pieces.size(), kMostFiles);
  for (std::size_t i = 0; i < shown; ++i)
    rows.push_back({manifest.files[i].name, cat(pieces[i]), size_text(manifest.files[i].bytes)});
  std::string out = table(rows);
  if (shown < pieces.size()) out += cat("and ", pieces.size() - shown, " more (--all)\n");
  return out;
}

std::string to_text(const Checkpoint& checkpoint, bool all) {
  const Manifest& manifest = checkpoint.manifest();
  Rows kinds = {{"kind", "tensors", "elements", "bytes"}};
  for (const auto& kind : checkpoint::sizes_by_kind(manifest))
    kinds.push_back({kind.kind, cat(kind.tensors), count_text(static_cast<double>(kind.elements)),
                     size_text(kind.bytes)});
  return cat(checkpoint.folder(), "\n", state_text(manifest), run_text(manifest), "\n", table(kinds), "\n",
             tensors_text(manifest, all), "\n", files_text(manifest, all));
}

metrics::Record to_record(const Checkpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  const checkpoint::Progress& p = manifest.progress;
  std::vector<metrics::Record> kinds, tensors, files;
  for (const auto& kind : checkpoint::sizes_by_kind(manifest))
    kinds.push_back({{"kind", kind.kind},
                     {"tensors", kind.tensors},
                     {"elements", kind.elements},
                     {"bytes", whole(kind.bytes)}});
  for (const TensorGroup& tensor : checkpoint::tensor_groups(manifest, false))
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.tensor.dtype},
                       {"shape", tensor.tensor.shape},
                       {"pieces", tensor.pieces},
                       {"bytes", whole(tensor.bytes)}});
  const auto pieces = checkpoint::pieces_by_file(manifest);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    files.push_back(
        {{"name", manifest.files[i].name}, {"pieces", pieces[i]}, {"bytes", whole(manifest.files[i].bytes)}});
  return {{"folder", checkpoint.folder()},
          {"version", checkpoint::kFormatVersion},
          {"written_by", manifest.written_by},
          {"step", p.step},
          {"updates", p.updates},
          {"next_sample", whole(p.next_sample)},
          {"seed", cat(p.seed)},
          {"loss_scale", p.loss_scale},
          {"good_steps", p.good_steps},
          {"reset_after", p.reset_after},
          {"program_hash", manifest.program_hash},
          {"config", manifest.config},
          {"ranks", checkpoint::num_ranks(manifest)},
          {"bytes", whole(checkpoint::total_bytes(manifest))},
          {"kinds", kinds},
          {"tensors", tensors},
          {"files", files}};
}

std::string to_text(const std::vector<ListedCheckpoint>& listed) {
  Rows rows = {{"step", "written", "bytes", "shards", "", "folder"}};
  for (const ListedCheckpoint& each : listed) {
    const bool opens = each.problem.empty();
    rows.push_back({cat(each.folder.step), time_text(each.unix_seconds), opens ? size_text(each.bytes) : "",
                    opens ? cat(each.num_ranks) : "", opens ? "opens" : "DAMAGED", each.folder.path});
  }
  std::string out = table(rows);
  for (const ListedCheckpoint& each : listed)
    if (!each.problem.empty()) out += cat("\nstep ", each.folder.step, ": ", each.problem, "\n");
  return out;
}

metrics::Record to_record(const std::vector<ListedCheckpoint>& listed) {
  std::vector<metrics::Record> out;
  for (const ListedCheckpoint& each : listed)
    out.push_back({{"step", each.folder.step},
                   {"folder", each.folder.path},
                   {"unix_seconds", each.unix_seconds},
                   {"bytes", whole(each.bytes)},
                   {"ranks", each.num_ranks},
                   {"problem", each.problem}});
  return {{"checkpoints", out}};
}

}  // namespace

int checkpoint_inspect_command(const Options& options) {
  const std::string& folder = options.checkpoint.folder;
  if (!checkpoint::is_checkpoint(folder)) {
    if (const auto listed = checkpoint::listed_checkpoints(folder); !listed.empty()) {
      options.json ? print_lines(metrics::json_object(to_record(listed))) : print_lines(to_text(listed));
      return 0;
    }
  }
  const Checkpoint checkpoint(folder, options.checkpoint.links);
  options.json ? print_lines(metrics::json_object(to_record(checkpoint)))
               : print_lines(to_text(checkpoint, options.checkpoint.all));
  return 0;
}

}  // namespace tessera::cli
