#include "tessera/generate/opened_model.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/huggingface/hf_config.hpp"
#include "tessera/checkpoint/huggingface/hf_import.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tessera/checkpoint/huggingface/tokenizer.hpp"
#include "tessera/collective/transports/transports.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/train/fits.hpp"
#include "tessera/train/saved.hpp"

namespace tessera::generate {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPositions = 1024;  // of a sample, where nothing is said

// The path of a checkpoint that this is, or has inside; empty: none.
std::string checkpoint_in(const std::string& folder) {
  if (checkpoint::is_checkpoint(folder)) return folder;
  for (const std::string& place : {folder, folder + "/checkpoints"})
    if (const auto found = checkpoint::step_folders(place); !found.empty()) return found.front().path;
  return "";
}

// What a model computes with when nobody trains it: neither a state of the optimizer nor a cut stream.
spec::Run asked(const spec::Model& model) {
  spec::Run out;
  out.model = model;
  out.model.dropout = 0;
  out.model.init_std = 0;  // nothing is drawn where all is read
  out.training.global_batch = 1;
  out.training.optimizer = spec::Optimizer::sgd;
  out.training.momentum = 0;
  out.layout.sequence_parallel = false;
  return out;
}

OpenedModel described_in(const std::string& folder, const std::string& files, Links links) {
  const auto described = checkpoint::described_folder(files, links);
  OpenedModel out{.folder = folder, .run = asked(described->model), .files = files, .links = links};
  out.most_positions = described->max_positions;
  out.run.model.sequence = out.most_positions > 0 ? std::min(out.most_positions, kPositions) : kPositions;
  return out;
}

OpenedModel of_checkpoint(const std::string& folder, const std::string& path, Links links) {
  const checkpoint::Checkpoint saved(path, links);
  OpenedModel out;
  if (saved.manifest().config.empty()) {
    out = described_in(folder, path + "/" + checkpoint::kAttachedPrefix, links);
  } else {
    const spec::Run trained = spec::parse_unchecked(saved.manifest().config, path);
    out = {.folder = folder,
           .run = asked(trained.model),
           .files = checkpoint::tokenizer_folder(path).value_or(""),
           .links = links};
    out.run.model.weights.clear();
    out.run.data = trained.data;
    out.run.evaluation = trained.evaluation;
    if (trained.model.family == spec::Family::gpt2) out.most_positions = trained.model.sequence;
  }
  out.checkpoint = path;
  return out;
}

}  // namespace

OpenedModel open_model(const std::string& folder, Links links) {
  if (const std::string path = checkpoint_in(folder); !path.empty())
    return of_checkpoint(folder, path, links);
  if (fs::exists(fs::path(folder) / checkpoint::kConfigName)) {
    OpenedModel out = described_in(folder, folder, links);
    out.run.model.weights = folder;
    out.run.model.follow_links = links == Links::followed;
    return out;
  }
  throw UserError(cat(folder, fs::exists(folder) ? " is no model" : ": there is no such folder",
                      ". Name a checkpoint, the folder of a run, or one of Hugging Face (config.json and "
                      "model.safetensors)."));
}

spec::Run run_of(const OpenedModel& opened, const std::vector<std::string>& overrides) {
  spec::Run run =
      spec::parse_unchecked(spec::to_text(opened.run), opened.folder, overrides, checkpoint::described);
  if (run.layout.in_blocks()) run.layout.sequence_parallel = true;  // which is not asked for there
  const std::int64_t positions = run.model.sequence;
  if (opened.most_positions > 0 && positions > opened.most_positions)
    throw UserError(cat(opened.folder, " takes ", opened.most_positions, " positions, and ", positions,
                        " are asked for. Ask for a shorter text."));
  // A table of positions is read whole.
  if (!opened.checkpoint.empty() && run.model.family == spec::Family::gpt2)
    run.model.sequence = opened.run.model.sequence;
  spec::validate(run, collective::this_build());
  return run;
}

std::unique_ptr<train::Session> session_of(const OpenedModel& opened, const spec::Run& run,
                                           const collective::Communicator& communicator, ActivityLog* log) {
  auto session = std::make_unique<train::Session>(train::session_plan(run), communicator,
                                                  train::random_source(run.model), train::Variation(), log);
  if (opened.checkpoint.empty()) return session;
  checkpoint::Checkpoint from(opened.checkpoint, opened.links);
  train::check_fits(*session, run, from, std::nullopt, {.changed_data = true, .reset_optimizer = true});
  train::restore(*session, from);
  return session;
}

void expect_all_logits(const spec::Run& run, const std::string& what) {
  if (run.layout.ranks() != run.layout.tp || run.layout.cuts_stream() || run.layout.in_blocks())
    throw UserError(cat(
        what,
        " on one rank, or on ranks of layout.tp with layout.tp_kind = 1d and without sequence parallelism; "
        "leave the other keys of [layout] as they are"));
}

std::string tokenizer_name(const OpenedModel& opened, const std::string& named) {
  if (!named.empty()) return named;
  if (!opened.files.empty() && checkpoint::tokenizer_in(opened.files)) return opened.files;
  const spec::Data& data = opened.run.data;
  return data.tokenizer.empty() && !data.path.empty() && data.sources.empty() ? "bytes" : data.tokenizer;
}

std::unique_ptr<tokenizer::Tokenizer> tokenizer_of(const OpenedModel& opened, const std::string& named) {
  const std::string name = tokenizer_name(opened, named);
  if (!name.empty()) return tokenizer::open_tokenizer(name);
  throw UserError(cat(opened.folder,
                      " has no tokenizer. Name one with --tokenizer: a tokenizer.json, a folder with one, a "
                      "SentencePiece .model, or the word bytes."));
}

std::vector<tokenizer::Token> end_tokens(const OpenedModel& opened, const tokenizer::Tokenizer& tokenizer) {
  std::error_code ignored;
  std::vector<tokenizer::Token> out;
  for (const char* name : {"generation_config.json", checkpoint::kConfigName}) {
    const fs::path path = fs::path(opened.files) / name;
    if (opened.files.empty() || !fs::exists(path, ignored)) continue;
    const auto config = nlohmann::json::parse(file_text(path), nullptr, false);
    const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
    if (found == config.end()) continue;
    for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found}))
      if (id.is_number_integer()) out.push_back(id.get<tokenizer::Token>());
    if (!out.empty()) return out;
  }
  if (const auto end = tokenizer.token_of("<|endoftext|>")) out.push_back(*end);
  return out;
}

}  // namespace tessera::generate
