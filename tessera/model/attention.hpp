// The attention of a block: causal, over its own positions and, in generation, those of the cache.
#pragma once

#include "tessera/model/unit.hpp"
#include "tessera/parallel/layers.hpp"

namespace tessera::model {

// Positions that the batch's cache holds for a layer already.
std::int64_t num_cached(const Batch& batch, std::size_t layer);

// Attention of the heads over all positions so far as [T, N*D]; extends the cache by theirs.
Tensor attend(parallel::Heads heads, const Batch& batch, std::size_t layer,
              const parallel::ContextAxes& context);

}  // namespace tessera::model
