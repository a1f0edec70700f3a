// The arithmetic of a step, counted over the ops of a program, all ranks together; and what a recomputation
// omits. The values that its segment writes are there already, so it only makes the tape: a step is done
// without its ResultWork if nothing needs its result.
#pragma once

#include <span>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct StepFlops {
  double model = 0;     // what the model needs: every forward and backward once, whatever the layout
  double hardware = 0;  // what is done: recomputation too, and what several ranks compute alike
  bool operator==(const StepFlops&) const = default;
};

// Of a step whose micro-batches are all full.
StepFlops step_flops(const Program& program);

// For each of these consecutive steps, whether a backward needs what it writes: its own, or one that gets it
// through linear steps. Plan and engine both ask this function, so that they omit the same calls.
std::vector<bool> results_needed(std::span<const Step* const> steps);

// What a recomputation of a piece does.
struct RecomputedPiece {
  std::vector<Collective> collectives;
  double flops = 0;
  std::int64_t bytes = 0;  // memory traffic
};
// For each of a segment's pieces.
std::vector<RecomputedPiece> recomputed(std::span<const Piece> pieces);

}  // namespace tessera::program
