// The parts of check. Each part appends what it finds; all but the first rely on indices being in range.
#pragma once

#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/touches.hpp"

namespace tessera::program {

inline constexpr std::size_t kEnoughProblems = 100;  // nobody reads more

// "op 12 (2B1)".
std::string named(const Sequence& sequence, std::uint32_t op, const Tables& tables);

// Every index, micro-batch, wait and flag lies within its table.
void check_ranges(const Program& program, std::vector<Problem>& out);
// Reductions, gathers and sums run over the axes that make their cells whole.
void check_axes(const Program& program, std::uint32_t rank_class, std::vector<Problem>& out);
// Cells: made once, there when used, ended once; gradients in one reduction; nothing left at the end.
void check_cells(const Program& program, std::uint32_t rank_class, const Touches& touches,
                 std::vector<Problem>& out);
// Two ops on different lanes that touch one cell are ordered by waits.
void check_order(const Program& program, std::uint32_t rank_class, const Touches& touches,
                 std::vector<Problem>& out);
// A sum over several axis sets goes on from the one before, so classes that share sets sum over them in one
// order.
void check_sum_order(const Program& program, std::vector<Problem>& out);
// Along the stages every segment is computed once; ranks that communicate while they compute do so in one
// order.
void check_compute(const Program& program, std::vector<Problem>& out);
// All ranks of a class meet ranks of the same classes.
void check_symmetry(const Program& program, std::vector<Problem>& out);
// Ranks meet: classes are symmetric, sends match receives, group ops are equal on all members, and nobody
// gets stuck, whether sends are buffered, a rendezvous, or a rendezvous with all communication of a rank in
// one queue: a program should run on any transport. `runs_ahead`: also with forwards in the step before
// theirs.
void check_meetings(const Program& program, bool runs_ahead, std::vector<Problem>& out);

}  // namespace tessera::program
