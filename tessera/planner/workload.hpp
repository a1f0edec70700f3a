// What the closed form of a step's cost depends on: the shape of a model, how it is split, and what its
// kernels are. A run of Tessera becomes one, and so does a published run of another system.
#pragma once

#include <cstdint>

#include "tessera/spec/spec.hpp"

namespace tessera::planner {

enum class AttentionKernel : std::uint8_t { flash2, flash1, fused_softmax, plain };
enum class Fp8 : std::uint8_t { none, tensorwise, rowwise };
enum class PipelineOrder : std::uint8_t { gpipe, one_f_one_b, zb_h1, zb_full };  // by what idles
enum class Recomputed : std::uint8_t { none, attention, full };

struct Workload {
  // Model.
  double layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0, sequence = 0;
  bool gated = true;
  double experts = 0, experts_per_token = 0, expert_ffn = 0, shared_experts = 0, dense_layers = 0;
  double expert_load = 1;  // of the busiest rank, over an even share
  // Split.
  double devices = 1, tp = 1, pp = 1, dp = 1, cp = 1, cp_heads = 1, ep = 1, etp = 1, virtual_stages = 1;
  spec::TensorKind tp_kind = spec::TensorKind::d1;
  double shard = 1;  // ranks that share the optimizer's state, of dp x cp
  double micro_batch = 1, global_batch = 1;
  int zero = 0;
  bool sequence_parallel = false;
  Recomputed recompute = Recomputed::none;
  PipelineOrder order = PipelineOrder::one_f_one_b;
  bool deals_by_cost =
      false;               // stages take units in proportion to what these cost, not layers in equal numbers
  double holds_times = 1;  // micro-batches under way, over what the order needs (ZB-2p: 2)
  double slowest_share = 1;  // of the work, over an even share, on the slowest device: uneven devices
  // Arithmetic and kernels.
  double bytes = 2;       // of a value
  double grad_bytes = 4;  // of a gradient while it is summed
  double state_bytes = 12;
  Fp8 fp8 = Fp8::none;
  AttentionKernel attention = AttentionKernel::flash2;
  bool fused_norms = true, eager = false, overlaps_tp = false, overlaps_ep = false;
  bool offloads_optimizer = false;  // its state lies in host memory

  double micro_batches() const;
  double tokens() const { return micro_batch * sequence / cp; }  // of a micro-batch on one rank
  // Blocks on the fullest stage, and on the last.
  double stage_layers() const;
  double last_layers() const;
  bool operator==(const Workload&) const = default;
};

// Of a run as its file says.
Workload workload_of(const spec::Run& run);

// FLOPs of a step that the model needs: no recomputation, attention over half of the square.
double model_flops(const Workload& work);

// Parameters of a block on one rank of tp (all experts counted by their share), and of an embedding table.
double layer_parameters(const Workload& work);
double table_parameters(const Workload& work);

}  // namespace tessera::planner
