// RMSNorm over all channels of q and over all of k, of which the ranks of tp hold parts.
#pragma once

#include "tessera/parallel/parallel_context.hpp"

namespace tessera::model {

struct ChannelNorm {
  tensor::Tensor q_C, k_C;              // weights of this rank's channels, in at least 32 bits
  std::int64_t q_channels, k_channels;  // of all ranks
  std::int64_t k_copies;                // ranks that hold the same channels of k
  double epsilon;
};

// Of the fused projection [T, Q + 2K], q first; v stays as it is.
tensor::Tensor norm_channels(const tensor::Tensor& qkv, const ChannelNorm& norm,
                             const parallel::ParallelContext& context);

}  // namespace tessera::model
