// Finds the rank that holds up the others from what every rank was last seen doing, and says so in a
// sentence.
#pragma once

#include <span>
#include <string>

#include "tessera/base/process/activity.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct Verdict {
  int rank = -1;         // the one that the others wait for; -1: nobody stands out
  std::int32_t op = -1;  // where it is, or what its program lacks or has in another place; -1: no op
  std::string sentence;
};

// states[i] is of rank i. Looked for in this order: a rank without a sign of life, one that runs another
// program, programs that lack an op or have another in its place, the end of the chain of waits, ranks that
// wait for each other in a ring, and, where nobody waits for another, what has lasted longest.
Verdict find_culprit(const Program& program, std::span<const RankState> states, double now_seconds);

}  // namespace tessera::program
