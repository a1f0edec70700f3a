// Returns how many FLOPs a step takes.
#pragma once

#include "tessera/program/ir/work.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// For a program of this layout. The last micro-batch may be short or empty, and then does less than the
// program says.
inline program::StepFlops step_flops(const program::Program& program, const spec::Layout& layout,
                                     std::int64_t global_batch) {
  const auto samples = static_cast<double>(layout.dp() * layout.micro_batch * program.tables.num_micro);
  const double share = static_cast<double>(global_batch) / samples;
  const program::StepFlops full = program::step_flops(program);
  return {full.model * share, full.hardware * share};
}

}  // namespace tessera::plan
