// Places what lanes hand to each other in one range of memory: each cell at an offset of its own while it
// lives, fixed by the program. An accelerator's allocator gives memory that two streams used back only when
// its host has seen both pass, and a host that runs ahead sees that late; a place in the range is used again
// by an op that waits for the one that ended its last cell there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct Slot {
  std::uint32_t op = 0;  // makes the cell there
  Cell cell;
  std::int64_t offset = 0;
  bool operator==(const Slot&) const = default;
};

// A cell whose memory is the compute lane's and that another lane ends: it is dropped when `op`, of the
// compute lane, starts, which comes after `ended_by`.
struct LateEnd {
  std::uint32_t op = 0, ended_by = 0;
  Cell cell;
  bool operator==(const LateEnd&) const = default;
};

// Of one class of ranks.
struct Slots {
  std::int64_t bytes = 0;    // of the range
  std::vector<Slot> placed;  // by op
  std::vector<LateEnd> late;
  // Those of an op.
  std::span<const Slot> of(std::uint32_t op) const;
  bool operator==(const Slots&) const = default;
};

// Adds the waits that the places and the late ends need to the program, and returns these, by class.
//
// Placed are Full where it is gathered, WeightGrad where ranks hold slices of the sum, and values and
// gradients that are received. What lives on into the next step, or is handed on in place, is not. Late end
// values and gradients that are sent. What another lane ends is taken to be in use until the computation
// after it is over, as Note [Memory over lanes] counts it, so that nobody waits for what has just begun.
std::vector<Slots> place_in_slots(Program& program);

}  // namespace tessera::program
