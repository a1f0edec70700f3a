// Returns how many FLOPs a step of a run takes.
#pragma once

#include "tessera/program/ir/work.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// Of the run's program. Its last micro-batch may be short or empty, and then does less than the program says.
inline program::StepFlops step_flops(const spec::Run& run, const program::Program& program) {
  const auto samples =
      static_cast<double>(run.layout.dp() * run.layout.micro_batch * program.tables.num_micro);
  const double share = static_cast<double>(run.training.global_batch) / samples;
  const program::StepFlops full = program::step_flops(program);
  return {full.model * share, full.hardware * share};
}

}  // namespace tessera::plan
