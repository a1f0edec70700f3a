// Makes the collectives of a block over tp ops of their own.
#pragma once

#include <set>
#include <string>

#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// Of a block of six pieces (unit_moments.hpp) and its norm: norm | q, k, v to out | add and norm | up to down
// | add. What leaves the first, second, third and fourth is exchanged. `on_stream`: parameters that are used
// where the residual stream is. Times and bytes are those of the six dealt anew; unlike theirs, the memory of
// the five is not held to an allocator's count.
program::Unit open(const program::Unit& block, const program::Piece& norm, const Sizes& s,
                   const std::set<std::string>& on_stream);

}  // namespace tessera::plan
