#include "tessera/parallel/block_attention.hpp"

#include <ATen/ops/_scaled_dot_product_flash_attention_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_ops.h>

#include <cmath>
#include <limits>

namespace tessera::parallel {

namespace {

// Query heads of one key head lie side by side: [B,N,Q,D] as [B,K,N/K*Q,D].
Tensor by_key_head(const Tensor& t_BNQD, const Tensor& k) {
  return t_BNQD.reshape({t_BNQD.size(0), k.size(1), -1, t_BNQD.size(3)});
}

// Scores [B,N,Q,C], wide.
Tensor scores(const Heads& heads, bool causal) {
  const Tensor& q = heads.q;
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  Tensor scores = by_key_head(q, heads.k)
                      .matmul(heads.k.transpose(2, 3))
                      .to(tensor::wide(q.scalar_type()))
                      .mul_(scale)
                      .view({q.size(0), q.size(1), q.size(2), heads.k.size(2)});
  if (causal)
    scores.masked_fill_(scores.new_ones({q.size(2), q.size(2)}).tril_().eq(0),
                        -std::numeric_limits<double>::infinity());
  return scores;
}

// exp(scores - lse).
Tensor weights(const Heads& heads, bool causal, const Tensor& lse_BNQ) {
  return scores(heads, causal).sub_(lse_BNQ.unsqueeze(-1)).exp_();
}

// Which kernel attends: the flash kernels of CPUs and of CUDA keep no scores. CUDA's compute in 16 bits, with
// up to 256 channels of a head, in eights; they take fewer key heads than query heads.
enum class Kernel { cpu_flash, flash, products };

Kernel kernel_for(const Tensor& q) {
  if (q.is_cpu()) return Kernel::cpu_flash;
  const bool is_narrow = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  return is_narrow && q.size(3) <= 256 && q.size(3) % 8 == 0 ? Kernel::flash : Kernel::products;
}

}  // namespace

Block attend_block(const Heads& heads, bool causal) {
  const auto& [q, k, v] = heads;
  switch (kernel_for(q)) {
    case Kernel::cpu_flash: {
      auto [out, lse] = at::_ops::_scaled_dot_product_flash_attention_for_cpu::call(
          q, k, v, 0.0, causal, std::nullopt, std::nullopt);
      return {out, lse};
    }
    case Kernel::flash: {
      const auto results = at::_ops::_scaled_dot_product_flash_attention::call(
          q, k, v, 0.0, causal, /*return_debug_mask=*/false, std::nullopt);
      return {std::get<0>(results), std::get<1>(results)};
    }
    case Kernel::products:
      break;
  }
  return attend_block_by_products(heads, causal);
}

Heads attend_block_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row, bool causal) {
  const auto& [q, k, v] = heads;
  switch (kernel_for(q)) {
    case Kernel::cpu_flash: {
      auto [d_q, d_k, d_v] = at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward::call(
          d_out_BNQD, q, k, v, row.out_BNQD, row.lse_BNQ, 0.0, causal, std::nullopt, std::nullopt);
      return {d_q, d_k, d_v};
    }
    case Kernel::flash: {
      const Tensor none;  // sequences of one length each, nothing dropped
      // The kernel takes the log-sum-exp to be dense.
      auto [d_q, d_k, d_v] = at::_ops::_scaled_dot_product_flash_attention_backward::call(
          d_out_BNQD, q, k, v, row.out_BNQD, row.lse_BNQ.contiguous(), none, none, q.size(2), k.size(2), 0.0,
          causal, none, none, std::nullopt);
      return {d_q, d_k, d_v};
    }
    case Kernel::products:
      break;
  }
  return attend_block_by_products_backward(d_out_BNQD, heads, row, causal);
}

Block attend_block_by_products(const Heads& heads, bool causal) {
  const Tensor lse = scores(heads, causal).logsumexp(-1);
  const Tensor p = weights(heads, causal, lse).to(heads.v.scalar_type());
  return {by_key_head(p, heads.k).matmul(heads.v).view(heads.q.sizes()), lse};
}

Heads attend_block_by_products_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                                        bool causal) {
  const auto dtype = heads.q.scalar_type(), wide = tensor::wide(dtype);
  const double scale = 1 / std::sqrt(static_cast<double>(heads.q.size(3)));
  const Tensor d_out = by_key_head(d_out_BNQD, heads.k), q = by_key_head(heads.q, heads.k);
  const Tensor p = weights(heads, causal, row.lse_BNQ);
  const Tensor d_v = by_key_head(p.to(dtype), heads.k).transpose(2, 3).matmul(d_out);
  const Tensor along = d_out_BNQD.to(wide).mul(row.out_BNQD).sum(-1, /*keepdim=*/true);
  Tensor d_scores = d_out.matmul(heads.v.transpose(2, 3)).to(wide).view(p.sizes());
  d_scores = by_key_head(d_scores.sub(along).mul_(p).mul_(scale).to(dtype), heads.k);
  return {d_scores.matmul(heads.k).view(heads.q.sizes()), d_scores.transpose(2, 3).matmul(q), d_v};
}

void merge_block(const Block& row, const Block& block) {
  const Tensor both = row.lse_BNQ.logaddexp(block.lse_BNQ);
  row.out_BNQD.mul_(row.lse_BNQ.sub(both).exp_().unsqueeze(-1))
      .add_(block.out_BNQD.mul(block.lse_BNQ.sub(both).exp_().unsqueeze(-1)));
  row.lse_BNQ.copy_(both);
}

}  // namespace tessera::parallel
