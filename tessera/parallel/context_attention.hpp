// Attention over sequences of which each rank holds a part. Inside a ring place heads are exchanged for
// positions by all-to-all; the places pass keys and values round a ring (ring_attention.hpp).
// program::context_positions says who holds what, program::context_calls which collectives it takes. A group
// of one leaves its part out.
#pragma once

#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/parallel/ring_attention.hpp"

namespace tessera::parallel {

// Causal attention of q [B,N,S,D] over k and v [B,K,S,D], all of this rank's positions and with their
// positions' rotation done: [B,N,S,D]. The heads axis divides N. One rank whose
// samples are one document each, without a window: tensor::attention. The heads of an unneeded result are not
// exchanged back.
Tensor context_attention(const Heads& heads, const ContextAxes& axes, Documents documents,
                         collective::Result result = collective::Result::needed);

}  // namespace tessera::parallel
