// The attention of a block: causal, over its own positions and, in generation, those of the cache.
#pragma once

#include "tessera/model/unit.hpp"
#include "tessera/parallel/layers.hpp"

namespace tessera::model {

struct AttentionLayer {
  std::size_t layer = 0;
  std::int64_t window = 0;  // positions that a query sees, its own among them; 0: all before it
};

// Attention of the heads over all positions so far as [T, N*D]; extends the cache, if there is one, by
// theirs.
Tensor attend(const parallel::Heads& heads, const Batch& batch, const AttentionLayer& layer,
              const parallel::ContextAxes& context, collective::Result result);

// Of each sample the one position that the batch has of it; undefined unless it goes on from a cache.
Tensor positions_after_cache(const Batch& batch);

}  // namespace tessera::model
