#include "tessera/parallel/block_attention.hpp"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>

#include <cmath>
#include <limits>

namespace tessera::parallel {

namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

std::optional<Tensor> added(const Sight& sight) {
  return sight.added_B1QC.defined() ? std::optional(sight.added_B1QC) : std::nullopt;
}

// The kernel calls the log-sum-exp of nothing 0.
void mark_blind_rows(Tensor& lse_BNQ, const Sight& sight) {
  if (sight.added_B1QC.defined()) lse_BNQ.masked_fill_(sight.added_B1QC.amax(-1).eq(kNothing), kNothing);
}

// Query heads of one key head lie side by side: [B,N,Q,D] as [B,K,N/K*Q,D].
Tensor by_key_head(const Tensor& t_BNQD, const Tensor& k) {
  return t_BNQD.reshape({t_BNQD.size(0), k.size(1), -1, t_BNQD.size(3)});
}

// Scores [B,N,Q,C], wide.
Tensor scores(const Heads& heads, const Sight& sight) {
  const Tensor& q = heads.q;
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  Tensor scores = by_key_head(q, heads.k)
                      .matmul(heads.k.transpose(2, 3))
                      .to(tensor::wide(q.scalar_type()))
                      .mul_(scale)
                      .view({q.size(0), q.size(1), q.size(2), heads.k.size(2)});
  if (sight.added_B1QC.defined()) scores.add_(sight.added_B1QC);
  if (sight.causal) scores.masked_fill_(scores.new_ones({q.size(2), q.size(2)}).tril_().eq(0), kNothing);
  return scores;
}

// exp(scores - lse), 0 in rows that see nothing.
Tensor weights(const Heads& heads, const Sight& sight, const Tensor& lse_BNQ) {
  return scores(heads, sight).sub_(lse_BNQ.masked_fill(lse_BNQ.eq(kNothing), 0).unsqueeze(-1)).exp_();
}

}  // namespace

Block attend_block(const Heads& heads, const Sight& sight) {
  if (!heads.q.is_cpu()) return attend_block_by_products(heads, sight);
  auto [out, lse] = at::_ops::_scaled_dot_product_flash_attention_for_cpu::call(
      heads.q, heads.k, heads.v, 0.0, sight.causal, added(sight), std::nullopt);
  mark_blind_rows(lse, sight);
  return {out, lse};
}

Heads attend_block_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                            const Sight& sight) {
  if (!heads.q.is_cpu()) return attend_block_by_products_backward(d_out_BNQD, heads, row, sight);
  auto [d_q, d_k, d_v] = at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward::call(
      d_out_BNQD, heads.q, heads.k, heads.v, row.out_BNQD, row.lse_BNQ, 0.0, sight.causal, added(sight),
      std::nullopt);
  return {d_q, d_k, d_v};
}

Block attend_block_by_products(const Heads& heads, const Sight& sight) {
  const Tensor lse = scores(heads, sight).logsumexp(-1);
  const Tensor p = weights(heads, sight, lse).to(heads.v.scalar_type());
  return {by_key_head(p, heads.k).matmul(heads.v).view(heads.q.sizes()), lse};
}

Heads attend_block_by_products_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                                        const Sight& sight) {
  const auto dtype = heads.q.scalar_type(), wide = tensor::wide(dtype);
  const double scale = 1 / std::sqrt(static_cast<double>(heads.q.size(3)));
  const Tensor d_out = by_key_head(d_out_BNQD, heads.k), q = by_key_head(heads.q, heads.k);
  const Tensor p = weights(heads, sight, row.lse_BNQ);
  const Tensor d_v = by_key_head(p.to(dtype), heads.k).transpose(2, 3).matmul(d_out);
  const Tensor along = d_out_BNQD.to(wide).mul(row.out_BNQD).sum(-1, /*keepdim=*/true);
  Tensor d_scores = d_out.matmul(heads.v.transpose(2, 3)).to(wide).view(p.sizes());
  d_scores = by_key_head(d_scores.sub(along).mul_(p).mul_(scale).to(dtype), heads.k);
  return {d_scores.matmul(heads.k).view(heads.q.sizes()), d_scores.transpose(2, 3).matmul(q), d_v};
}

void merge_block(Block& row, const Block& block, std::int64_t first) {
  const std::int64_t count = block.lse_BNQ.size(2);
  Tensor lse = row.lse_BNQ.narrow(2, first, count);
  const Tensor both = lse.logaddexp(block.lse_BNQ);
  row.out_BNQD.narrow(2, first, count)
      .mul_(lse.sub(both).exp_().unsqueeze(-1))
      .add_(block.out_BNQD.mul(block.lse_BNQ.sub(both).exp_().unsqueeze(-1)));
  lse.copy_(both);
}

}  // namespace tessera::parallel
