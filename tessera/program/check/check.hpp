// Checks a program by a walk without a clock: no rank gets stuck, each cell is made once, there when used and
// ended once, what touches one cell is ordered, memory stays under the limits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct Problem {
  std::uint32_t rank_class = 0;
  std::uint32_t op = 0;  // index in its sequence; the number of ops: the end of the step
  std::string text;      // names the op by index and word, and says what is wrong
  bool operator==(const Problem&) const = default;
};

struct CheckOptions {
  std::int64_t budget_bytes = 0;  // of each rank; 0: no limit
  bool runs_ahead = true;         // forwards marked so run in the step before theirs; on accelerators never
};

// Every problem found, none for a program that may run. O(ops).
std::vector<Problem> check(const Program& program, const CheckOptions& options = {});

// The problems, a line each, at most `limit` of them.
std::string to_text(const std::vector<Problem>& problems, std::size_t limit = 10);

}  // namespace tessera::program
