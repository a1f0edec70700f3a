// The arithmetic of a step, counted over the ops of a program, all ranks together.
#pragma once

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct StepFlops {
  double model = 0;     // what the model needs: every forward and backward once, whatever the layout
  double hardware = 0;  // what is done: recomputation too, and what several ranks compute alike
  bool operator==(const StepFlops&) const = default;
};

// Of a step whose micro-batches are all full.
StepFlops step_flops(const Program& program);

}  // namespace tessera::program
