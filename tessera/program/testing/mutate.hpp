// Random programs that must mean the same, and random ones that must be refused. For tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// The same ops in another order that respects every dependency: a random topological order, with new waits.
// Adds to one cell keep their order, so results are bit-equal. Between several classes all communication
// keeps its order.
Program legal_reordering(const Program& program, std::uint64_t seed);

struct IllegalEdit {
  Program program;
  std::string what;                 // in words
  std::vector<std::string> blamed;  // words of ops: a right checker names at least one
};

// A program that breaks exactly one promise: an op dropped, doubled, moved, changed or run over other axes, a
// needed wait removed, or a transfer led elsewhere or swapped with another on one side.
IllegalEdit illegal_edit(const Program& program, std::uint64_t seed);

}  // namespace tessera::program
