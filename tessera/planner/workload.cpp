#include "tessera/planner/workload.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::planner {
namespace {

PipelineOrder order_of(const spec::Layout& layout) {
  const std::string_view name = spec::entry(layout.schedule).name;
  if (name == "gpipe" || name == "bfs") return PipelineOrder::gpipe;
  if (name == "zb-h1") return PipelineOrder::zb_h1;
  if (name == "zb-v" || name == "dualpipe-v" || name == "auto") return PipelineOrder::zb_full;
  return PipelineOrder::one_f_one_b;
}

double width_of(const Workload& work) { return work.gated ? 3 : 2; }

// Whole numbers of blocks to stages, with the embedding and the head as blocks of their own where that is
// even.
bool divides(double layers, double stages) { return std::fmod(layers, stages) == 0; }

}  // namespace

double Workload::micro_batches() const { return std::ceil(global_batch / (dp * micro_batch)); }

double Workload::stage_layers() const {
  if (divides(layers, pp)) return layers / pp;
  if (divides(layers + 2, pp)) return (layers + 2) / pp;
  return std::ceil(layers / pp);
}

double Workload::last_layers() const {
  const bool is_lighter = pp > 1 && !divides(layers, pp) && divides(layers + 2, pp);
  return stage_layers() - (is_lighter ? 1 : 0);
}

Workload workload_of(const spec::Run& run) {
  const spec::Model& model = run.model;
  const spec::Layout& layout = run.layout;
  Workload out;
  const auto number = [](std::int64_t x) { return static_cast<double>(x); };
  out.layers = number(model.blocks()), out.hidden = number(model.hidden), out.heads = number(model.heads);
  out.kv_heads = number(model.kv_heads), out.head_dim = number(model.head_size());
  out.ffn = number(model.ffn), out.vocab = number(model.vocab), out.sequence = number(model.sequence);
  out.gated = model.family != spec::Family::gpt2;
  if (model.experts > 0) {
    out.experts = number(model.experts), out.experts_per_token = number(model.experts_per_token);
    out.expert_ffn = number(model.expert_width()), out.shared_experts = number(model.shared_experts);
    out.dense_layers = number(model.dense_layers);
    out.expert_load = std::max(layout.expert_load, 1.0);
  }
  out.devices = number(layout.ranks());
  out.tp = number(layout.tp), out.pp = number(layout.pp), out.dp = number(layout.dp());
  out.cp = number(layout.cp), out.cp_heads = number(layout.cp_heads), out.tp_kind = layout.tp_kind;
  out.ep = number(layout.ep), out.etp = number(layout.etp);
  out.virtual_stages = number(layout.num_virtual());
  out.shard = number(layout.dp_shard * layout.cp);
  out.micro_batch = number(layout.micro_batch), out.global_batch = number(run.training.global_batch);
  out.zero = static_cast<int>(layout.zero);
  out.sequence_parallel = layout.cuts_stream() || layout.in_blocks();
  out.recompute = layout.recompute == spec::Recompute::full   ? Recomputed::full
                  : layout.recompute == spec::Recompute::none ? Recomputed::none
                                                              : Recomputed::attention;
  out.order = order_of(layout);
  const bool is_half = layout.precision == spec::Precision::bf16 || layout.precision == spec::Precision::fp16;
  out.bytes = is_half ? 2 : layout.precision == spec::Precision::fp64 ? 8 : 4;
  out.grad_bytes = is_half ? 4 : out.bytes;
  const double moments = run.training.optimizer == spec::Optimizer::adamw ? 2 : 1;
  out.state_bytes = (is_half ? 4 : 0) + moments * (is_half ? 4 : out.bytes);
  out.overlaps_tp = layout.tp_overlap, out.overlaps_ep = layout.ep_overlap;
  out.offloads_optimizer = spec::offloads(layout, spec::Offload::optimizer);
  out.deals_by_cost = true;
  return out;
}

double model_flops(const Workload& w) {
  const double query = w.heads * w.head_dim, keys = w.kv_heads * w.head_dim;
  const double attention = w.hidden * (2 * query + 2 * keys);
  const double dense = width_of(w) * w.hidden * w.ffn;
  const double routed =
      w.experts > 0 ? 3 * w.hidden * w.expert_ffn * (w.experts_per_token + w.shared_experts) : 0;
  const double fed =
      w.experts > 0 ? w.dense_layers * dense + (w.layers - w.dense_layers) * routed : w.layers * dense;
  const double products = 2 * (w.layers * attention + fed + w.hidden * w.vocab);
  const double scores = w.layers * 4 * w.sequence * query / 2;
  return 3 * w.global_batch * w.sequence * (products + scores);
}

double layer_parameters(const Workload& w) {
  const double query = w.heads * w.head_dim, keys = w.kv_heads * w.head_dim;
  const double attention = w.hidden * (2 * query + 2 * keys) / w.tp;
  if (w.experts == 0) return attention + width_of(w) * w.hidden * w.ffn / w.tp;
  const double expert = 3 * w.hidden * w.expert_ffn;
  const double experts = expert * (w.experts / (w.ep * w.etp) + w.shared_experts / w.tp);
  const double share = (w.layers - w.dense_layers) / w.layers;
  return attention + share * experts + (1 - share) * 3 * w.hidden * w.ffn / w.tp;
}

double table_parameters(const Workload& w) { return std::ceil(w.vocab / 128) * 128 * w.hidden / w.tp; }

}  // namespace tessera::planner
