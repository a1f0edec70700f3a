#include "tessera/checkpoint/tools/diff.hpp"

#include "tessera/base/error.hpp"
#include "tessera/cli/commands/checkpoint_output.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/field.hpp"

namespace tessera::cli {
namespace {

using checkpoint::Difference;
using checkpoint::KeyDifference;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kMostRows = 40;

// A table of which a person is shown the beginning.
std::string shortened(Rows rows, bool all) {
  const std::size_t left = all || rows.size() <= kMostRows ? 0 : rows.size() - kMostRows;
  rows.resize(rows.size() - left);
  return cat("\n", table(rows), left > 0 ? cat("and ", left, " more (--all)\n") : "");
}

void add_keys(const std::vector<KeyDifference>& keys, const char* prefix, Rows& rows) {
  for (const auto& [key, first, second] : keys)
    rows.push_back({cat(prefix, key), first.empty() ? "-" : first, second.empty() ? "-" : second});
}

std::string to_text(const Difference& found, bool all) {
  std::string out;
  Rows keys = {{"of", "first", "second"}};
  add_keys(found.other_form, "", keys);
  for (const std::string& name : found.only_first) keys.push_back({name, "there", "-"});
  for (const std::string& name : found.only_second) keys.push_back({name, "-", "there"});
  add_keys(found.state, "state ", keys);
  add_keys(found.config, "", keys);
  if (keys.size() > 1) out += shortened(keys, all);
  Rows rows = {{"tensor", "elements", "differing", "largest difference", "relative"}};
  for (const auto& tensor : found.tensors)
    rows.push_back({tensor.name, cat(tensor.elements), cat(tensor.differing), scientific(tensor.absolute),
                    scientific(tensor.relative)});
  if (rows.size() > 1) out += shortened(rows, all);
  const auto common = found.num_equal + std::ssize(found.tensors);
  return cat(found.equal() ? "equal: " : "DIFFERENT: ", found.num_equal, " of ", common,
             " tensors that both have in one form are equal bit by bit",
             found.equal() && !found.config.empty() ? "; only the ways of running differ" : "", "\n", out);
}

std::vector<metrics::Record> to_records(const std::vector<KeyDifference>& keys) {
  std::vector<metrics::Record> out;
  for (const auto& [key, first, second] : keys)
    out.push_back({{"key", key}, {"first", first}, {"second", second}});
  return out;
}

metrics::Record to_record(const Difference& found) {
  std::vector<metrics::Record> tensors;
  for (const auto& tensor : found.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"elements", tensor.elements},
                       {"differing", tensor.differing},
                       {"largest_difference", tensor.absolute},
                       {"largest_relative_difference", tensor.relative}});
  return {{"equal", found.equal()},
          {"equal_tensors", found.num_equal},
          {"tensors", tensors},
          {"other_form", to_records(found.other_form)},
          {"only_first", found.only_first},
          {"only_second", found.only_second},
          {"state", to_records(found.state)},
          {"config", to_records(found.config)}};
}

}  // namespace

int checkpoint_diff_command(const Options& options) {
  const CheckpointOptions& own = options.checkpoint;
  checkpoint::Checkpoint first = opened_checkpoint(own.folder, own.links),
                         second = opened_checkpoint(own.second, own.links);
  Difference found;
  {
    metrics::ProgressBar bar("comparing");
    found = checkpoint::diff(first, second, bar.progress());
  }
  print_lines(options.json ? metrics::json_object(to_record(found)) : to_text(found, own.all));
  return found.equal() ? 0 : kExitNo;
}

}  // namespace tessera::cli
