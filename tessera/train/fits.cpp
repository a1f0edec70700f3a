#include "tessera/train/fits.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/chunk_hash.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/train/run_differences.hpp"

namespace tessera::train {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Manifest;
using program::Parameter;

// The run that wrote it; nothing of an import.
std::optional<spec::Run> run_of(const Manifest& saved) {
  if (saved.config.empty()) return std::nullopt;
  return spec::parse_unchecked(saved.config, "the checkpoint's run file");
}

bool has_state(const Manifest& saved) {
  return std::ranges::any_of(saved.tensors,
                             [](const auto& item) { return checkpoint::is_optimizer_state(item.first); });
}

// Checkpoints of earlier versions have no identity of their data; then the names are all there is to compare.
std::optional<std::string> file_difference(const spec::Data& now, const spec::Data& before,
                                           const std::optional<checkpoint::DataIdentity>& data,
                                           const std::optional<checkpoint::DataIdentity>& saved) {
  if (!data) return std::nullopt;
  const std::string& path = now.sources.empty() ? now.path : now.sources;
  const std::string& saved_path = before.sources.empty() ? before.path : before.sources;
  const std::string key = now.sources.empty() ? "data.path" : "data.sources";
  const auto words = [](const std::string& name, const checkpoint::DataIdentity& of) {
    return cat("\"", name, "\" (", of.bytes, " bytes, hash ", checkpoint::hash_text(of.hash), ")");
  };
  if (saved && *data == *saved) return std::nullopt;
  if (saved) return cat(key, " = ", words(path, *data), ", the checkpoint has ", words(saved_path, *saved));
  std::error_code ignored;
  if (path == saved_path || std::filesystem::equivalent(path, saved_path, ignored)) return std::nullopt;
  return cat(key, " = \"", path, "\", the checkpoint has \"", saved_path, "\"");
}

std::string optimizer_words(const spec::Training& training) {
  const std::string name = spec::word(training.optimizer);
  return training.optimizer == spec::Optimizer::sgd ? cat(name, " with momentum ", training.momentum) : name;
}

constexpr char kBeginAnew[] = "or begin anew with --from none and another --out";

std::string listed(const std::vector<std::string>& lines) { return cat("\n  ", join(lines, "\n  "), "\n"); }

// Names and shapes of all tensors.
void check_tensors(const Session& session, const Checkpoint& from, const std::vector<std::string>& prefixes) {
  const auto& saved = from.manifest().tensors;
  const auto complain = [&](const std::string& what) {
    throw UserError(cat("checkpoint '", from.folder(), "' ", what,
                        ". Make [model] and training.optimizer match it (tessera checkpoint inspect ",
                        from.folder(), "), ", kBeginAnew, "."));
  };
  std::set<std::string> known;
  for (const auto& bucket : session.program().tables.buckets)
    for (const Parameter& parameter : bucket.parameters) {
      const auto found = saved.find(parameter.name);
      if (found == saved.end()) complain(cat("has no ", parameter.name, ", which the model of this run has"));
      const auto shape = parameter.whole_shape();
      if (found->second.shape != shape)
        complain(cat("has ", parameter.name, " as ", shape_text(found->second.shape),
                     ", the model of this run as ", shape_text(shape)));
      known.insert(parameter.name);
      for (const std::string& prefix : prefixes)
        if (bucket.rule == program::UpdateRule::optimizer && !saved.contains(prefix + parameter.name))
          complain(cat("has no ", prefix, parameter.name, ", which training.optimizer of this run needs"));
    }
  for (const auto& [name, tensor] : saved)
    if (checkpoint::is_parameter(name) && !known.contains(name))
      complain(cat("has ", name, ", which the model of this run has not"));
}

}  // namespace

bool goes_on(const Manifest& saved) {
  if (has_state(saved)) return true;
  const auto run = run_of(saved);
  return run && state_prefixes(run->training).empty() && saved.progress.step > 0;
}

bool has_same_optimizer(const Session& session, const Manifest& saved) {
  std::set<std::string> kinds, wanted;
  for (const auto& [name, tensor] : saved.tensors)
    if (checkpoint::is_optimizer_state(name)) kinds.insert(checkpoint::kind_of(name) + ".");
  for (const std::string& prefix : state_prefixes(session.training())) wanted.insert(prefix);
  return kinds == wanted;
}

std::vector<std::string> check_fits(const Session& session, const spec::Run& run, const Checkpoint& from,
                                    const std::optional<checkpoint::DataIdentity>& data,
                                    const Accepted& accepted) {
  const Manifest& saved = from.manifest();
  const auto saved_run = run_of(saved);
  const std::string name = cat("checkpoint '", from.folder(), "'");
  if (saved_run)
    if (const auto other = model_differences(run, *saved_run); !other.empty())
      throw UserError(cat(name, " holds another model than this run trains:", listed(other),
                          "Write these keys as the checkpoint has them, ", kBeginAnew, "."));
  const bool is_going_on = goes_on(saved), is_same_optimizer = has_same_optimizer(session, saved);
  check_tensors(session, from,
                is_going_on && is_same_optimizer ? state_prefixes(run.training) : std::vector<std::string>());
  if (!is_going_on) return {};
  std::vector<std::string> notes;
  if (saved.progress.seed != run.training.seed)
    throw UserError(cat(
        "training.seed = ", run.training.seed, ", but ", name, " was trained with ", saved.progress.seed,
        ", and weights, dropout and order go on from it. Write training.seed = ", saved.progress.seed, "."));
  if (!is_same_optimizer && !accepted.reset_optimizer)
    throw UserError(
        cat("training.optimizer is ", optimizer_words(run.training), ", but ", name, " holds the state of ",
            saved_run ? optimizer_words(saved_run->training) : "another",
            ". Write the optimizer as it was, or pass --reset-optimizer: weights and step go on, and the "
            "optimizer begins with an empty state."));
  if (!is_same_optimizer)
    notes.push_back(cat("--reset-optimizer: ", optimizer_words(run.training),
                        " begins with an empty state in the place of ",
                        saved_run ? optimizer_words(saved_run->training) : "another optimizer"));
  if (!saved_run) return notes;
  auto other = data_differences(run, *saved_run);
  if (const auto file = file_difference(run.data, saved_run->data, data, saved.data)) other.push_back(*file);
  if (!other.empty() && !accepted.changed_data)
    throw UserError(cat(
        name, " was trained on other samples than this run would read:", listed(other),
        "Write these keys as the checkpoint has them, or pass --accept-changed-data to go on with the new "
        "ones."));
  for (const std::string& line : other) notes.push_back("--accept-changed-data: " + line);
  return notes;
}

}  // namespace tessera::train
