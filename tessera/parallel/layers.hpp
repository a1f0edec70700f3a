// The differentiable layers of a segment whose weight half is deferred. Each returns what autograd needs for
// the input gradient and, while differentiating, appends the weight half to `work` (docs/design.md, "What
// a backward does").
//
// Shapes: T tokens of the micro-batch (samples * positions), I inputs, O outputs, H hidden, V vocabulary, F
// ffn, N heads, K key-value heads, D channels of a head, B samples, S positions.
#pragma once

#include "tessera/parallel/parallel_context.hpp"
#include "tessera/parallel/rotary.hpp"
#include "tessera/shard/weight.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

using collective::Result;  // of an unneeded one a product that ranks share makes no values, and calls nothing
using shard::Weight;
using shard::WeightWork;
using tensor::Tensor;

// y = x W^T, plus the bias if there is one.
Tensor linear(const Tensor& x_TI, Weight& weight_OI, WeightWork& work, Weight* bias_O = nullptr);

// Products of what enters a branch from the stream, side by side. Where the context regathers, x is the
// stream's part of the tokens: it is gathered here, and in the backward again.
struct Projection {
  Weight* weight_OI;
  Weight* bias_O = nullptr;
};
Tensor entering_linear(const Tensor& x_TI, std::span<const Projection> projections, WeightWork& work,
                       const ParallelContext& context, Result result = Result::needed);

// What each rank adds to a sum on the stream; with values in blocks the sum itself. `bias`, if there is one,
// is added where the rank has all of the sum.
Tensor leaving_linear(const Tensor& x_TI, Weight& weight_OI, WeightWork& work, const ParallelContext& context,
                      Weight* bias_O = nullptr, Result result = Result::needed);

// The same where the ranks of tp hold columns of the weight, and of x: their sums go to the stream, then
// comes the bias.
Tensor linear_to_stream(const Tensor& x_TI, Weight& weight_OI, WeightWork& work,
                        const ParallelContext& context, Weight* bias_O = nullptr);

// x plus the bias, if there is one.
Tensor add_bias(const Tensor& x_TO, Weight* bias_O, WeightWork& work);

// Rows of the table. `tape` is any tensor that requires a gradient: it makes autograd visit the layer.
Tensor embedding(const Tensor& tokens_T, Weight& weight_VH, const Tensor& tape, WeightWork& work);

// The same where the ranks of tp hold rows of the table, of tokens that all of them have; to the stream.
Tensor embedding_to_stream(const Tensor& tokens_T, Weight& weight_VH, const Tensor& tape, WeightWork& work,
                           const ParallelContext& context);

// The fused projection [T, (N+2K)*D] split in q [B,N,S,D], k and v [B,K,S,D], with q and k rotated.
struct Heads {
  Tensor q, k, v;
};
Heads split(const Tensor& qkv, std::int64_t samples, std::int64_t heads);  // K = N, nothing rotated
Heads split_and_rotate(const Tensor& qkv, const Rotary& rotary, std::int64_t samples, std::int64_t heads,
                       std::int64_t kv_heads);

// The same with an RMSNorm over the channels of each head of q and k before they are rotated. Weights are
// leaves in at least 32 bits.
struct HeadNorm {
  Tensor q_D, k_D;
  double epsilon;
};
Heads split_norm_and_rotate(const Tensor& qkv, const HeadNorm& norm, const Rotary& rotary,
                            std::int64_t samples, std::int64_t heads, std::int64_t kv_heads);

// silu(gate) * up of the fused [T, 2F], gate first.
Tensor swiglu(const Tensor& gate_up_T2F);

// Sum of the cross entropies of all valid tokens (target >= 0), in fp32 or fp64, by chunks of tokens: full
// logits never exist. See Note [Loss gradient in the forward]; its gradient is made times `gradient_factor`,
// which the backward divides out again. x comes from the stream; the ranks of tp hold rows of the table, and
// get the same loss.
Tensor vocabulary_loss(const Tensor& x_TH, Weight& weight_VH, const Tensor& targets_T, WeightWork& work,
                       const ParallelContext& context, double gradient_factor = 1.0);

// The same in a form that keeps logits, all of them on each rank of tp: for generation and for comparing with
// other implementations. x is whole on each rank.
Tensor logits(const Tensor& x_TH, const Weight& weight_VH, const collective::Group& tp);

}  // namespace tessera::parallel
