// Attention of ring places to a sequence that they hold in parts. Keys and values go round the ring; each
// place merges what its queries take from them. In the backward they go round again, and their gradients with
// them. See program/ir/context_parallel.hpp for who holds what. Nothing here is seen by autograd.
#pragma once

#include "tessera/collective/group.hpp"
#include "tessera/parallel/block_attention.hpp"
#include "tessera/parallel/document_blocks.hpp"

namespace tessera::parallel {

// Causal attention of this place's queries to the whole sequence, within documents.
Block ring_attention(const Heads& heads, const collective::Group& ring, const Documents& documents);
// Gradients of this place's q, k and v, wide if there are several places. `row` is what the forward gave, out
// in the dtype of q.
Heads ring_attention_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                              const collective::Group& ring, const Documents& documents);

}  // namespace tessera::parallel
