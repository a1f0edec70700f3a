#include "tessera/families/olmo2/run/channel_norm.hpp"

#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::model {

using tensor::Tensor;

// One call adds up the squares of both. Every rank uses the sums for its own channels, so their gradients add
// up too.
Tensor norm_channels(const Tensor& qkv, const ChannelNorm& norm, const parallel::ParallelContext& context) {
  const std::int64_t q_size = norm.q_C.size(0), k_size = norm.k_C.size(0);
  const auto narrow = qkv.scalar_type(), wide = tensor::wide(narrow);
  const Tensor q = qkv.narrow(1, 0, q_size).to(wide), k = qkv.narrow(1, q_size, k_size).to(wide);
  const auto mean_square = [](const Tensor& x, double channels) {
    return x.mul(x).sum(1, true).div(channels);
  };
  Tensor means = tensor::concatenate({mean_square(q, static_cast<double>(norm.q_channels)),
                                      mean_square(k, static_cast<double>(norm.k_channels * norm.k_copies))},
                                     1);
  if (const collective::Axis& axis = context.branch_channels(); axis.group.size() > 1)
    means = all_reduce_replicated({means, "squares", {{axis.name, collective::kPartial}}}, axis).tensor;
  const Tensor scale = means.add(norm.epsilon).rsqrt();
  return tensor::concatenate({q.mul(scale.narrow(1, 0, 1)).mul(norm.q_C).to(narrow),
                              k.mul(scale.narrow(1, 1, 1)).mul(norm.k_C).to(narrow),
                              qkv.narrow(1, q_size + k_size, qkv.size(1) - q_size - k_size)},
                             1);
}

}  // namespace tessera::model
