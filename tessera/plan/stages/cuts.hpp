// Cuts blocks into segments and says which are recomputed, as the layout's keys ask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/program/ir/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// Pieces of a unit that follow each other and become one segment.
struct Stretch {
  std::uint32_t num_pieces = 0;
  bool recomputed = false;
  bool operator==(const Stretch&) const = default;
};
using Cut = std::vector<Stretch>;  // of a whole unit
using Cuts = std::vector<Cut>;     // by block

// One segment; of an opened block, one per piece.
Cut uncut(const program::Unit& unit);

// Note [Cuts]
// Neighbours that are both kept or both recomputed stay together, with one exception: a value that a later
// stretch reads is the last of its own, so that a stretch writes one value and no tape holds what is a value
// too. Embedding and head are never cut: a lookup keeps nothing, and the head makes its gradient in the
// forward (Note [Loss gradient in the forward]), so that recomputing it would multiply out the logits twice
// and keep as much.
Cut cut_around(const program::Unit& block, const std::vector<bool>& recomputed);

// Of layout.recompute = none, full or selective. Throws UserError for names that are no pieces of a block.
Cuts cuts(const spec::Layout& layout, std::span<const program::Unit> blocks);

// Seconds of computing the recomputed stretches once more, for a micro-batch.
double recompute_seconds(const program::Unit& block, const Cut& cut);

}  // namespace tessera::plan
