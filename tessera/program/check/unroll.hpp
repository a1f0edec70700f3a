// Consecutive steps of a program as one: what a walk, a simulation or a picture needs to see across the edge
// between two.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct Steps {
  Program program;                                // not to be checked or run: cells are made again
  std::vector<std::vector<std::uint32_t>> place;  // by class, and step x ops of a step + op: where it stands
};

// Each class's ops so many times, one step after the other; a wait on the step before names the op there, and
// is dropped in the first. `ahead`: forwards ahead stand where the step before runs them, else at the start
// of their own step; on the compute lane in either case.
Steps unrolled(const Program& program, std::uint32_t steps, bool ahead = true);

}  // namespace tessera::program
