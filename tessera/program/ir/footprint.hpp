// The memory that the ops of a segment need: the allocation events of its pieces, replayed in the order in
// which they run.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/program/ir/tables.hpp"

namespace tessera::program {

// Of one micro-batch. A peak is the most bytes held while the op runs, above those held when it starts: what
// it makes and leaves is counted, what it frees on the way is subtracted, weight gradients are left out.
struct Footprint {
  std::int64_t tape_bytes = 0;           // Tape: what the forward leaves beside the values it writes
  std::int64_t work_bytes = 0;           // WeightWork
  std::int64_t forward_peak = 0;         // with a tape; also of recompute
  std::int64_t bare_peak = 0;            // of a forward that keeps no tape
  std::int64_t backward_peak = 0;        // of both halves together
  std::int64_t backward_input_peak = 0;  // of the input half
  std::int64_t backward_weight_peak = 0;
  bool operator==(const Footprint&) const = default;
};

// Of pieces in a row that have allocation events.
Footprint footprint(std::span<const Piece> pieces, bool recomputed = false);

// Of a segment of the tables, whose pieces all have allocation events, or sums alone.
Footprint footprint(const Segment& segment, const Tables& tables);

}  // namespace tessera::program
