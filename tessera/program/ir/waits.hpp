// Derives the waits of a sequence from the effects of its ops.
#pragma once

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// An op that waits for an earlier one although they share no cell; with kPreviousStep for any one of the step
// before.
struct ExtraWait {
  std::uint32_t op = 0, earlier = 0;
};

// Replaces all waits by the smallest set that orders every two ops touching one cell, where one of them
// writes, as they are issued, and the extra ones (in rising order of `op`); lane order gives the rest.
// Includes waits on the step before.
void build_waits(Sequence& sequence, const Tables& tables, std::span<const ExtraWait> extra = {});

// Per op: of those on the lane of forwards ahead, the op of the compute lane behind which they run in the
// step before; kNoPlace for all others, and for those that run at the start of their own step.
inline constexpr std::uint32_t kNoPlace = 0xffff'ffffu;
std::vector<std::uint32_t> places_ahead(const Sequence& sequence);

// The ops of a step as they come when it follows another and is followed by one: those that run in the step
// before are the next step's.
struct Follower {
  std::uint32_t op = 0;
  bool is_of_next_step = false;
};
std::vector<Follower> steady_order(const Sequence& sequence);

// Whether any forward may run in the step before its own.
bool has_ahead(const Sequence& sequence);
bool has_ahead(const Program& program);

}  // namespace tessera::program
