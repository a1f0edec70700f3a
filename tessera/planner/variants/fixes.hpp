// Changes to a run that bring every rank below a memory limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/ir/types.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::planner {

// A change to the run file that brings every rank below a limit.
struct Fix {
  std::vector<std::string> changes;  // "layout.zero=3"
  std::int64_t peak_bytes = 0;
  double slowdown = 1;  // its simulated step over that of the run as it stands
  bool operator==(const Fix&) const = default;
};

// Tries what usually helps by compiling it, one change at a time, and two together where no single one is
// enough: the fastest first by simulated step. `program` is the run's own. Empty: nothing that was tried
// fits.
std::vector<Fix> fixes(const spec::Run& run, const program::Program& program, std::int64_t limit_bytes);

// Throws UserError with the reason and the fixes if a rank of the program would hold more than
// layout.memory_limit_mib.
void hold_to_memory_limit(const spec::Run& run, const program::Program& program);

}  // namespace tessera::planner
