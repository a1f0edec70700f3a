#include "tessera/train/run_file.hpp"

#include <span>

#include "tessera/base/complaint.hpp"
#include "tessera/base/files/replace_file.hpp"
#include "tessera/base/text.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tessera/checkpoint/huggingface/tokenizer.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::train {

namespace {

// Empty: none is known, or tokens are bytes.
std::string tokenizer_of(const spec::Run& run, const std::string& begun_from) {
  if (run.data.sources.empty() || run.data.tokenizer == "bytes") return "";
  if (!run.data.tokenizer.empty()) return run.data.tokenizer;
  if (!run.model.weights.empty() && checkpoint::tokenizer_in(run.model.weights)) return run.model.weights;
  return begun_from.empty() ? "" : checkpoint::tokenizer_folder(begun_from).value_or("");
}

}  // namespace

std::vector<std::string> keep_run(const spec::Run& run, const KeptIn& where, const std::string& begun_from) {
  std::vector<std::string> complaints;
  const auto keep = [&](const std::string& folder, const auto& work) {
    if (folder.empty()) return;
    if (std::string complaint = complaint_of(work); !complaint.empty()) complaints.push_back(complaint);
  };
  keep(where.folder, [&] {
    const std::string text = spec::to_text(run);
    const auto bytes = std::as_bytes(std::span(text));
    replace_file(cat(where.folder, "/", kRunFileName), std::span(&bytes, 1));
  });
  keep(run.checkpoint.saves() ? where.checkpoints : "", [&] {
    if (const std::string tokenizer = tokenizer_of(run, begun_from); !tokenizer.empty())
      checkpoint::keep_tokenizer(tokenizer, where.checkpoints, checkpoint::links_of(run.model));
  });
  return complaints;
}

}  // namespace tessera::train
