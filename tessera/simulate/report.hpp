// Sums up a timeline: how long the ranks compute, how long they idle, and how many activations they hold.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/program/ir/types.hpp"
#include "tessera/simulate/timeline.hpp"

namespace tessera::simulate {

struct Report {
  struct OfClass {
    std::int64_t num_ranks = 0;
    double busy = 0;  // share of the makespan in which it computes
    std::int64_t peak_activations =
        0;  // segments whose forward is under way or done, and whose backward is not
    bool operator==(const OfClass&) const = default;
  };
  double makespan = 0;
  double step_seconds = 0;  // until all ops have ended, optimizer steps too; or until the next one begins
  double bubble = 0;        // share of the makespan in which compute lanes idle, over all ranks
  std::vector<OfClass> classes;
  bool operator==(const Report&) const = default;
};

// An activation lasts to the end of its backward, or of its weight half. Optimizer steps lie outside.
Report report(const program::Program& program, const Timeline& timeline);

}  // namespace tessera::simulate
