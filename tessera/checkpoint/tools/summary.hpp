// A summary of a checkpoint for people: sizes by kind, tensors of one form as one row, files; and the
// checkpoints of a run.
#pragma once

#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/manifest.hpp"

namespace tessera::checkpoint {

// "parameters", "optimizer.exp_avg" and so on, "attached files" where there are any.
struct KindSize {
  std::string kind;
  std::int64_t tensors = 0, elements = 0;
  std::uint64_t bytes = 0;
  bool operator==(const KindSize&) const = default;
};
std::vector<KindSize> sizes_by_kind(const Manifest& manifest);

// Tensors whose names differ in numbers only, with one dtype and shape:
// "model.layers.{0-31}.mlp.up_proj.weight".
struct TensorGroup {
  std::string name;
  Tensor tensor;
  std::int64_t count = 0, pieces = 0;
  std::uint64_t bytes = 0;        // of all
  std::uint64_t state_bytes = 0;  // of what training keeps beside them
  bool operator==(const TensorGroup&) const = default;
};
// Of the parameters, in the order of their names, numbers by size. Not `grouped`: every tensor by itself,
// optimizer state too.
std::vector<TensorGroup> tensor_groups(const Manifest& manifest, bool grouped);

// How many pieces each file holds, in the manifest's order.
std::vector<std::int64_t> pieces_by_file(const Manifest& manifest);
// Ranks that wrote files of tensors.
std::int64_t num_ranks(const Manifest& manifest);
// Of all files.
std::uint64_t total_bytes(const Manifest& manifest);

struct ListedCheckpoint {
  StepFolder folder;
  std::int64_t unix_seconds = 0;  // when its manifest was written
  std::string problem;            // why it can't be opened; empty: it can
  std::uint64_t bytes = 0;        // this and the next only if it can
  std::int64_t num_ranks = 0;
};
// Of a run's folder or its folder of checkpoints, the newest first. Opens each; reads no tensors.
std::vector<ListedCheckpoint> listed_checkpoints(const std::string& folder);

}  // namespace tessera::checkpoint
