// One random edit of a program, right or wrong, and, where it can be told without the checker, whether it is
// harmless. For tests.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct RandomEdit {
  Program program;
  std::string what;  // in words
  // The step still means the same: every two ops that share a cell keep their order, so do all ops of a
  // channel or group, and nobody gets stuck, neither with buffered sends nor where sends wait for their
  // receives and all communication of a rank goes through one queue. Found by brute force, for small
  // programs.
  bool is_harmless = false;
};

// An op of one class dropped, repeated, moved, made to speak of another segment (bucket, value), micro-batch
// or kind of cell, or given another hop, lane or mark: waits are then built anew. Or a wait dropped.
RandomEdit random_edit(const Program& program, std::uint64_t seed);

// The same of what orders two steps that overlap: a wait on the step before dropped or led to another op, or
// an update or a free on another lane with the waits that it had.
RandomEdit edge_edit(const Program& program, std::uint64_t seed);

}  // namespace tessera::program
