// Rewrites a checkpoint in another number of files, in equal shares. No layout needs that to load it; it is
// for copying and serving.
#pragma once

#include "tessera/checkpoint/folder/checkpoint.hpp"

namespace tessera::checkpoint {

struct Resharding {
  std::int64_t num_ranks = 1;
  bool parameters_only = false;  // leaves out what training keeps beside them
};

// Writes `from` into the folder `target`, which must not exist. Each rank gets equal bytes, but for a
// tensor's row. Reads and writes every byte about once; memory is a few blocks, whatever the model.
void reshard(Checkpoint& from, const std::string& target, const Resharding& how, const Told& told = nullptr);

// Which pieces each rank gets, without their bytes.
struct ReshardPiece {
  std::string tensor;
  Box box;
  bool operator==(const ReshardPiece&) const = default;
};
std::vector<std::vector<ReshardPiece>> resharded_pieces(const Manifest& manifest, const Resharding& how);

}  // namespace tessera::checkpoint
