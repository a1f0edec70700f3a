// Makes the ways of tokens to their experts and back ops of their own.
#pragma once

#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// The block in three pieces: up to the choice of experts | the experts | what comes after them. Rows are
// exchanged between these, in place of inside of one. A block without experts stays as it is. Times and bytes
// are those of the block dealt anew; unlike its, the memory of these pieces is not held to an allocator's
// count.
program::Unit open_experts(const program::Unit& block, const spec::Model& model, const StepShape& shape);

}  // namespace tessera::plan
