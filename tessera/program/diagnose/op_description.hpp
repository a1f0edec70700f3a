// Describes what a rank is doing in words that a person reads.
#pragma once

#include <string>

#include "tessera/base/process/activity.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// "31.0 s".
std::string seconds_text(double seconds);

// "tape of block.4, micro-batch 1", "optimizer state of head".
std::string described(const Cell& cell, const Tables& tables);

// "op 12 (5F1, forward of block.4, micro-batch 1)", as the rank's sequence has it.
std::string described(const Program& program, int rank, std::int32_t op);

// "reduce block.1", "backward block.0, micro-batch 1": what a viewer of traces shows.
std::string title(const Op& op, const Tables& tables);

// A rank counts as silent when its last sign of life is this old, at least.
inline constexpr double kSilentSeconds = 1.0;

// "in op 12 (...) of step 3 for 31.0 s", "reading the data ...", "silent for 5.1 s, last seen ...".
std::string described(const Program& program, int rank, const RankState& state, double now_seconds);

}  // namespace tessera::program
