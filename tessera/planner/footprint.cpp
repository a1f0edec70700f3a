#include "tessera/planner/footprint.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::planner {
namespace {

constexpr double kLogitBytes = 14;

struct PerBlock {
  double kept = 0, working = 0;  // bytes of a micro-batch: from forward to backward, and while it runs
};

PerBlock per_block(const Workload& w) {
  const double query = w.heads * w.head_dim, keys = w.kv_heads * w.head_dim, tokens = w.tokens(), t = w.tp;
  const double stream = w.sequence_parallel ? w.hidden / t : w.hidden;
  const bool is_flash = w.attention == AttentionKernel::flash1 || w.attention == AttentionKernel::flash2;
  const double scores = is_flash ? 4 * w.heads / t : 5 * w.heads / t * w.sequence;
  const double of_stream = w.gated ? 8 + (w.fused_norms ? 0 : 20) : 10;
  const double fed =
      w.experts > 0 ? w.expert_ffn * (w.experts_per_token * w.expert_load + w.shared_experts) : w.ffn;
  double inner = w.gated ? 2 * (query + 2 * keys) + 2 * query + 2 * (query + keys) + 8 * fed
                         : 2 * query + 4 * keys + 2 * query + 4 * fed;
  if (w.experts > 0) inner += 4 * w.experts_per_token * w.hidden * w.etp;
  // What travels beside another micro-batch is kept whole.
  const double beside = (w.overlaps_tp || w.overlaps_ep) && w.deals_by_cost ? 8 * w.hidden : 0;
  const double scale = w.bytes / 2;
  const double all = tokens * scale * (stream * of_stream + inner / t + scores + beside);
  switch (w.recompute) {
    case Recomputed::none:
      return {all, all};
    case Recomputed::attention:
      return {all - tokens * scale * scores, all};
    case Recomputed::full:
      return {tokens * scale * (2 * stream + beside), all};
  }
  return {};
}

double under_way(const Workload& w, double stage) {
  const double m = w.micro_batches(), p = w.pp;
  if (p <= 1) return 1;
  switch (w.order) {
    case PipelineOrder::gpipe:
      return m;
    case PipelineOrder::one_f_one_b:
      if (w.virtual_stages > 1)
        return std::min(m, p * (1 + (p - 1) / (p * w.virtual_stages)) - 2 * stage / w.virtual_stages);
      return std::min(m, p - stage);
    case PipelineOrder::zb_h1:
    case PipelineOrder::zb_full:
      return std::min(m, w.holds_times * p);
  }
  return m;
}

double state_bytes(const Workload& w, double parameters) {
  const double shard = std::max(1.0, w.shard);
  const double held = w.bytes / (w.zero == 3 ? shard : 1), grads = w.grad_bytes / (w.zero >= 2 ? shard : 1);
  const double gathered = w.zero == 3 ? 2 * layer_parameters(w) * w.bytes : 0;
  return parameters * (held + grads + w.state_bytes / (w.zero >= 1 ? shard : 1)) + gathered;
}

Footprint of_stage(const Workload& w, double stage) {
  const bool is_first = stage == 0, is_last = stage == w.pp - 1;
  const double blocks = is_first || is_last ? w.last_layers() : w.stage_layers();
  const double tables = w.pp == 1 ? 2 : is_first || is_last ? 1 : 0;
  const PerBlock block = per_block(w);
  Footprint out;
  out.stage = stage;
  out.state = state_bytes(w, layer_parameters(w) * blocks + tables * table_parameters(w));
  out.activations = block.kept * blocks * under_way(w, stage) +
                    (w.recompute == Recomputed::none ? 0 : block.working - block.kept);
  if (w.deals_by_cost) {
    // Our programs: values between segments, slots of buckets, and what weight halves wait for.
    constexpr double kValues = 1.2, kWaiting = 2.2;
    out.activations *= w.order == PipelineOrder::zb_h1 ? kWaiting : kValues;
  }
  if (is_last) out.logits = w.tokens() * w.vocab / w.tp * kLogitBytes;
  out.peak = out.state + out.activations + out.logits;
  return out;
}

}  // namespace

Footprint footprint(const Workload& work) {
  Footprint out = of_stage(work, 0);
  for (const double stage : {std::min(1.0, work.pp - 1), work.pp - 1})
    if (const Footprint other = of_stage(work, stage); other.peak > out.peak) out = other;
  return out;
}

double least_bytes(const Workload& work) {
  return state_bytes(work, layer_parameters(work) * work.layers / work.pp) +
         (work.recompute == Recomputed::full ? 0 : per_block(work).kept * work.layers / work.pp);
}

}  // namespace tessera::planner
