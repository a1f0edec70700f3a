// Replays the lifetimes of cells over the ops of a sequence: what a rank holds, and when.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/base/bytes_held.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/program/memory/slots.hpp"

namespace tessera::program {

Category category_of(CellKind kind);

struct Memory {
  using ByKind = std::array<std::int64_t, kNumCellKinds>;  // live bytes, indexed by CellKind
  std::vector<std::int64_t> during;                        // bytes held while each op runs, its own included
  ByKind at_peak = {};
  std::int64_t scratch_at_peak = 0;  // what the op needs beside the cells
  std::int64_t peak_bytes = 0;
  std::uint32_t peak_op = 0;    // the first op during which the peak is held
  std::int64_t end_bytes = 0;   // what stays: the durable cells that lie here
  std::int64_t host_bytes = 0;  // most that lies outside at a time
};

// What an accelerator holds throughout: the range in which the slots lie, whether there is something in them
// or not, and what its libraries take. Counted as scratch; the cells of slots are in the range.
struct Throughout {
  const Slots* slots = nullptr;
  std::int64_t workspace_bytes = 0;
};

// Note [Memory over lanes]
// Ops count in issue order. What an op of another lane ends, and its scratch, count until an op of the
// compute lane is known to come after it, or until the next computation with matrix products is over:
// communication is taken to be no slower than that. What is offloaded counts until it is known to be outside.
// Where steps overlap, a step before it has been gone through, and what is left of that counts too.
// What another lane makes counts from where it is issued. A reduction whose ShardGrad is not there yet and as
// large as the WeightGrad is in place. An op that computes holds what footprint.hpp says.
Memory replay_memory(const Sequence& sequence, const Tables& tables, const Throughout& throughout = {});

// What a rank holds with so many bytes of each kind of cell, scratch, and bytes outside.
BytesHeld by_category(const Memory::ByKind& cells, std::int64_t scratch, std::int64_t host);

// The same by category, while each op runs.
std::vector<BytesHeld> categories_during(const Sequence& sequence, const Tables& tables);

// A cell at a moment, and what it holds. Scratch of the op itself is no cell.
struct HeldCell {
  Cell cell;
  std::int64_t bytes = 0;
  bool operator==(const HeldCell&) const = default;
};
// What is alive while the op runs, largest first.
std::vector<HeldCell> cells_during(const Sequence& sequence, const Tables& tables, std::uint32_t op,
                                   const Throughout& throughout = {});

}  // namespace tessera::program
