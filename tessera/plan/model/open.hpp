// Makes the collectives of a block over tp ops of their own.
#pragma once

#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// The same steps in other pieces: a piece ends where a value enters or leaves the stream, which is an
// exchange then. Llama's six pieces become five: norm_1 | qkv+attention+out | add_1+norm_2 | up+gate+down |
// add_2. `norm`: what a norm of the stream costs. Times and bytes are those of the block dealt anew; unlike
// its, the memory of these pieces is not held to an allocator's count.
program::Unit open(const program::Unit& block, const program::Piece& norm, const Sizes& s);

}  // namespace tessera::plan
