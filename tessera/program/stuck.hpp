// Who holds up the others? Found from what every rank was last seen doing, and said in a sentence.
#pragma once

#include <span>
#include <string>

#include "tessera/base/activity.hpp"
#include "tessera/program/types.hpp"

namespace tessera::program {

// "op 12 (5F1, forward of block.4, micro-batch 1)", as the rank's sequence has it.
std::string spoken(const Program& program, int rank, std::int32_t op);

// What the rank is at: "in op 12 (...) of step 3 for 31.0 s", "reading data ...", "silent for 5.1 s, last seen ...".
std::string spoken(const Program& program, int rank, const RankState& state, double now_seconds);

struct Verdict {
  int rank = -1;         // the one that the others wait for; -1: nobody stands out
  std::int32_t op = -1;  // where it is, or what its program lacks or has in another place; -1: no op
  std::string sentence;
};

// A rank counts as silent when its last sign of life is this old.
inline constexpr double kSilentSeconds = 1.0;

// states[i] is of rank i. First what the programs themselves lack, then the end of the chain of waits, then ranks that
// wait for each other.
Verdict find_guilty(const Program& program, std::span<const RankState> states, double now_seconds);

}  // namespace tessera::program
