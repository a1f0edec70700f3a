// Consecutive steps of a program as one: what a walk, a simulation or a picture needs to see across the edge
// between two.
#pragma once

#include "tessera/program/ir/types.hpp"

namespace tessera::simulate {

// Each class's ops so many times, one step after the other; a wait on the step before names the op there, and
// is dropped in the first. Op i of step s is s * (ops of a step) + i. Not to be checked or run: cells are
// made again.
program::Program unrolled(const program::Program& program, std::uint32_t steps);

}  // namespace tessera::simulate
