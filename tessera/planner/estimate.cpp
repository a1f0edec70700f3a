#include "tessera/planner/estimate.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::planner {
namespace {

constexpr double kProductShare = 0.72;  // of the peak, that large products reach
constexpr double kMemoryShare = 0.75;   // of the memory's rate
constexpr double kLinkShare = 0.78;     // of a link in the node
constexpr double kNetworkShare = 0.8;   // of a network card
constexpr double kUncovered = 0.4;      // of collectives that run beside another micro-batch
constexpr double kShortInner = 200;     // inner dimension at which a product reaches half of its rate
constexpr double kLinkHalf = 3e6;       // bytes at which a collective in a node reaches half of its rate
constexpr double kBucketBytes = 2e8;    // of gradients that are reduced at once

// The larger one, rounded off where they are near: what overlaps but not wholly.
double longer(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

class Step {
 public:
  Step(const Workload& work, const Device& device, const Network& network, const Constants& constants)
      : w_(work), device_(device), net_(network), c_(constants) {}

  Estimate all() {
    blocks();
    stages();
    reductions();
    out_.fixed = device_.fixed_seconds * c_.fixed;
    const double scale = 1 + 0.004 * c_.scale * std::log2(std::max(w_.devices / 8, 1.0));
    out_.step = (step_ + out_.sends) * scale * w_.slowest_share + out_.data + out_.optimizer + out_.fixed;
    return out_;
  }

 private:
  double peak() const { return device_.tflops * 1e12; }
  double memory_rate() const { return device_.memory_gbps * 1e9 * kMemoryShare * c_.memory; }

  // Peak of the products of blocks.
  double block_peak() const {
    if (w_.fp8 == Fp8::none) return peak();
    return device_.tflops_fp8 * 1e12 * 0.82 * c_.fp8 * (w_.fp8 == Fp8::rowwise ? 0.62 : 1);
  }

  double product(double m, double n, double k, double rate) const {
    constexpr double kTile = 128;
    const double waves = std::ceil(m / kTile) * std::ceil(n / kTile) / device_.multiprocessors;
    const double used = 1 - 0.6 * (1 - waves / std::ceil(waves));
    const double share = std::min(0.95, kProductShare * c_.gemm * used * k / (k + kShortInner));
    return 2 * m * n * k / (rate * share);
  }

  // Seconds that a ring over n ranks takes whose ranks lie `stride` apart; volume: bytes through each link,
  // size: of the message.
  double ring(double n, double stride, double volume, double size) const {
    if (n <= 1) return 0;
    const bool within = n * stride <= net_.node_devices;
    const double top = within ? net_.link_gbps * 1e9 * kLinkShare : net_.network_gbps * 1e9 * kNetworkShare;
    const double rate = top * size / (size + (within ? kLinkHalf : net_.half_bytes));
    return volume / rate + (within ? 8e-6 : 25e-6) * 2 * std::log2(n);
  }

  void blocks() {
    const double tokens = w_.tokens(), query = w_.heads * w_.head_dim, keys = w_.kv_heads * w_.head_dim;
    const double t = w_.tp, rate = block_peak(), expert_share = routed_share();
    double products = product(tokens, (query + 2 * keys) / t, w_.hidden, rate) +
                      product(tokens, w_.hidden, query / t, rate);
    const double fed = product(tokens, (w_.gated ? 2 : 1) * w_.ffn / t, w_.hidden, rate) +
                       product(tokens, w_.hidden, w_.ffn / t, rate);
    products += (1 - expert_share) * fed + expert_share * routed(rate);
    const auto [attention_forward, attention_backward] = attention(tokens, query);
    const double moved = elementwise(tokens, query, keys) / memory_rate();
    const double tensor = tensor_seconds(tokens);
    const double tensor_backward = tensor * (w_.sequence_parallel ? 1.25 : 1);
    const double exchanged = expert_share * expert_exchange(tokens);
    const double passed = context_seconds(tokens, keys);
    const double by_heads = heads_seconds(tokens, query, keys);
    const double context_forward = std::max(0.0, passed - 0.8 * attention_forward) + by_heads;
    const double context_backward = std::max(0.0, 2 * passed - 0.8 * attention_backward) + by_heads;
    const double issue = device_.issue_seconds * c_.launch;
    forward_ = longer(products + attention_forward + moved + tensor + exchanged + context_forward, issue);
    double backward = longer(
        2 * products + attention_backward + 1.6 * moved + tensor_backward + exchanged + context_backward,
        issue / 0.7);
    recomputed_ =
        c_.recompute * (w_.recompute == Recomputed::full        ? forward_
                        : w_.recompute == Recomputed::attention ? recomputed_attention(attention_forward)
                                                                : 0);
    backward += recomputed_;
    block_ = forward_ + backward;
    weight_half_ = products;
    // For the record, of one micro-batch and block.
    out_.products = 3 * products, out_.attention = attention_forward + attention_backward;
    out_.elementwise = 2.6 * moved, out_.recompute = recomputed_;
    out_.tensor = tensor + tensor_backward, out_.context = context_forward + context_backward;
    out_.experts = 2 * exchanged;
  }

  // With flash kernels the selective kinds of others recompute a third of a block; without, the scores alone.
  double recomputed_attention(double attention_forward) const {
    return is_flash() ? 0.3 * forward_ : attention_forward;
  }

  bool is_flash() const {
    return w_.attention == AttentionKernel::flash1 || w_.attention == AttentionKernel::flash2;
  }

  std::pair<double, double> attention(double tokens, double query) const {
    const double square = 4 * tokens * w_.sequence * query / w_.tp;  // FLOPs of the whole square
    const bool aligned = std::fmod(w_.head_dim, 64) == 0, usable = std::fmod(w_.head_dim, 8) == 0;
    if (is_flash()) {
      double share = w_.attention == AttentionKernel::flash1 ? 0.38 : peak() > 5e14 ? 0.34 : 0.55;
      share *= (w_.head_dim < 100 ? 0.8 : 1) * (aligned ? 1 : usable ? 0.85 : 0.25) * c_.attention;
      const double forward = square / 2 / (peak() * share);
      return {forward, 2.875 * forward};
    }
    const double share = 0.5 * c_.attention * (aligned ? 1 : usable ? 0.8 : 0.12);
    const double passes = w_.attention == AttentionKernel::plain ? 14 : 9;
    const double moved = tokens * w_.sequence * w_.heads / w_.tp * passes / memory_rate();
    const double forward = square / (peak() * share);
    return {forward + moved, 2 * forward + 1.2 * moved};
  }

  double elementwise(double tokens, double query, double keys) const {
    const double stream = w_.sequence_parallel ? w_.hidden / w_.tp : w_.hidden;
    const double wide = routed_share() > 0
                            ? w_.expert_ffn * (w_.experts_per_token * w_.expert_load + w_.shared_experts)
                            : w_.ffn;
    double bytes = stream * ((is_flash() ? 20 : 24) + (w_.fused_norms ? 0 : 34)) +
                   (query + 2 * keys) / w_.tp * (w_.gated ? 8 : 4) + wide / w_.tp * (w_.gated ? 8 : 6);
    if (w_.eager) bytes *= 1.6;
    if (w_.fp8 != Fp8::none)
      bytes += 4 * (2 * w_.hidden + w_.hidden / w_.tp + ((w_.gated ? 2 : 1) + 1) * w_.ffn / w_.tp);
    return tokens * bytes * w_.bytes / 2;
  }

  double routed_share() const { return w_.experts > 0 ? (w_.layers - w_.dense_layers) / w_.layers : 0; }

  // Products of the experts of one rank.
  double routed(double rate) const {
    if (w_.experts == 0) return 0;
    const double tokens = w_.tokens() / w_.tp;  // each rank of tp has its own
    const double rows = tokens * w_.experts_per_token * w_.expert_load * w_.etp,
                 width = w_.expert_ffn / w_.etp;
    const double own = std::max(1.0, w_.experts / w_.ep), each = std::max(1.0, rows / own);
    const double grouped =
        own * (product(each, 2 * width, w_.hidden, rate) + product(each, w_.hidden, width, rate));
    if (w_.shared_experts == 0) return grouped;
    const double shared = w_.shared_experts * w_.expert_ffn;
    return grouped + product(tokens, 2 * shared, w_.hidden, rate) + product(tokens, w_.hidden, shared, rate);
  }

  // There and back.
  double expert_exchange(double tokens) const {
    const double ranks = w_.ep * w_.etp;  // each row goes to all ranks that share its expert
    if (ranks <= 1) return 0;
    const double rows =
        tokens / w_.tp * w_.experts_per_token * w_.expert_load * w_.hidden * w_.bytes * w_.etp;
    return 2 * ring(ranks, 1, rows * (ranks - 1) / ranks, rows) * c_.tensor *
           (w_.overlaps_ep ? kUncovered : 1);
  }

  // Of a block's forward.
  double tensor_seconds(double tokens) const {
    if (w_.tp <= 1) return 0;
    const double size = tokens * w_.hidden * w_.bytes, t = w_.tp;
    double seconds = 0;
    if (w_.tp_kind == spec::TensorKind::d1) {
      seconds = 2 * ring(t, 1, 2 * (t - 1) / t * size, size);
    } else {
      const double weights = layer_parameters(w_) * t * w_.bytes;
      const double values = (4 + 2 * (w_.gated ? 3 : 2) * w_.ffn / w_.hidden) / 2 * size;
      double q = std::round(std::sqrt(t)), moved = (q - 1) / (q * q) * (values + weights);
      if (w_.tp_kind == spec::TensorKind::d3) {
        q = std::round(std::cbrt(t));
        moved = (q - 1) / (q * q * q) * (2 * values + weights);
      } else if (w_.tp_kind == spec::TensorKind::d25) {
        q = std::round(std::sqrt(t / 2));
        moved = (q - 1) / (q * q) * (values / 2 + weights);
      }
      seconds = ring(q, t / q, moved, moved / 4);
    }
    return seconds * c_.tensor * (w_.overlaps_tp ? kUncovered : 1);
  }

  // Keys and values of the other ranks, in the forward.
  double context_seconds(double tokens, double keys) const {
    const double ranks = w_.cp / w_.cp_heads;  // those in a ring
    if (ranks <= 1) return 0;
    const bool within = w_.tp * w_.cp <= net_.node_devices;
    const double rate = within ? net_.link_gbps * 1e9 * 0.7 : net_.network_gbps * 1e9 * kNetworkShare;
    return (ranks - 1) * 2 * tokens * keys / w_.tp * w_.bytes / rate;
  }

  // Queries, keys and values for all positions of some heads, and the result back.
  double heads_seconds(double tokens, double query, double keys) const {
    const double bytes = tokens * (2 * query + 2 * keys) / w_.tp * w_.bytes;
    return ring(w_.cp_heads, w_.tp, (w_.cp_heads - 1) / w_.cp_heads * bytes, bytes / 4);
  }

  void stages() {
    const double m = w_.micro_batches(), tokens = w_.tokens(), rate = peak();
    const double table = std::ceil(w_.vocab / 128) * 128 / w_.tp;
    const double logits = product(tokens, table, w_.hidden, rate);
    const double head = (3 * logits + tokens * table * 24 / memory_rate()) * c_.head;
    const double full = w_.stage_layers(), last = w_.last_layers();
    const double mean = (w_.layers * block_ + head) / w_.pp;
    double longest = w_.pp > 1 ? std::max(full * block_, last * block_ + head) : last * block_ + head;
    if (w_.deals_by_cost && w_.pp > 1) longest = longest_dealt(head);
    switch (w_.order) {
      case PipelineOrder::gpipe:
      case PipelineOrder::one_f_one_b:
        out_.bubble = (w_.pp - 1) * mean / w_.virtual_stages;
        break;
      case PipelineOrder::zb_h1:
        out_.bubble = (w_.pp - 1) * std::max(mean - 2 * full * weight_half_, 0.1 * mean);
        break;
      case PipelineOrder::zb_full:  // a V is filled by twice as many micro-batches as there are stages
        out_.bubble = w_.deals_by_cost ? (w_.pp - 1) * mean * std::max(0.03, 1 - m / (2 * w_.pp)) : 0;
        break;
    }
    if (w_.pp > 1) {
      const bool is_cut = w_.sequence_parallel || w_.virtual_stages > 1;
      const double bytes = tokens * w_.hidden * w_.bytes / (is_cut ? w_.tp : 1);
      const bool within = w_.devices <= net_.node_devices;
      const double send =
          bytes / (within ? net_.link_gbps * 1e9 * 0.7 : net_.network_gbps * 1e9 * kNetworkShare);
      out_.sends = (send + 20e-6) * c_.pipeline * (m * w_.virtual_stages + 2 * (w_.pp - 1));
    }
    step_ = m * longest + out_.bubble;
    const double times = m * w_.layers / w_.pp;
    for (double* part : {&out_.products, &out_.attention, &out_.elementwise, &out_.recompute, &out_.tensor,
                         &out_.context, &out_.experts})
      *part *= times;
    out_.head = m * head;
    mean_ = m * mean * w_.pp;
  }

  // Of a rank whose stages take whole blocks, as many fewer on the last as the head is worth.
  double longest_dealt(double head) const {
    const double chunks = w_.virtual_stages, stages = w_.pp * chunks;
    const double even = (w_.layers * block_ + head) / stages;
    double out = 1e300;
    for (const double more : {0.0, 1.0}) {
      const double last = std::max(0.0, std::floor((even - head) / block_) + more);
      const double others = std::ceil((w_.layers - last) / (stages - 1));
      out = std::min(
          out, std::max(chunks * others * block_, (chunks - 1) * others * block_ + last * block_ + head));
    }
    return out;
  }

  void reductions() {
    const double m = w_.micro_batches(), t = w_.tp, ranks = w_.dp * w_.cp;
    const double local =
        layer_parameters(w_) * w_.stage_layers() + table_parameters(w_) * (w_.pp > 1 ? 1 : 2);
    const double rate = device_.memory_gbps * 1e9 * 0.7;
    const double state = local * (w_.state_bytes + 12), sharing = w_.zero >= 1 ? std::max(1.0, w_.shard) : 1;
    out_.optimizer = (state / sharing + 4 * local) / rate;
    if (w_.offloads_optimizer)
      out_.optimizer = std::max(out_.optimizer, 2 * local * w_.state_bytes / sharing / kHostBytesPerSecond);
    if (ranks <= 1) return;
    const double inside = std::max(1.0, std::min(ranks, net_.node_devices / std::min(t, net_.node_devices)));
    const double nodes = std::max(1.0, ranks / inside);
    const double bucket = w_.zero == 3 ? layer_parameters(w_) * 2 : std::min(kBucketBytes, local * 2);
    const double in_node = net_.link_gbps * 1e9 * 0.75;
    double between = in_node;
    if (nodes > 1) {
      const bool in_pod = net_.pod_devices == 0 || w_.devices <= net_.pod_devices;
      const double card = (in_pod ? net_.network_gbps : net_.pod_gbps) * 1e9;
      between = std::min(in_node, card * inside * 0.85 / (1 + nodes * net_.bytes_per_node / bucket));
    }
    const double shard = std::min(std::max(1.0, w_.shard), ranks);
    const double gather = (shard - 1) / shard * local * w_.bytes / (shard <= inside ? in_node : between);
    const double reduce = (ranks - 1) / ranks * local * (w_.zero >= 2 ? w_.grad_bytes : w_.bytes) / between;
    if (w_.zero >= 2) {  // reduced after every micro-batch
      const double all = m * ((w_.zero == 3 ? 2 * gather : 0) + reduce) + (w_.zero == 2 ? gather : 0);
      out_.data = longer(std::max(all - 0.9 * mean_, 0.0), 0.08 * all) * c_.data;
    } else {
      out_.data = (gather + 0.4 * reduce) / 2 * c_.data;
    }
  }

  const Workload& w_;
  const Device& device_;
  const Network& net_;
  const Constants& c_;
  Estimate out_;
  double forward_ = 0, recomputed_ = 0, block_ = 0, weight_half_ = 0;  // of one block and micro-batch
  double step_ = 0, mean_ = 0;
};

}  // namespace

Network network_of(const Device& device) {
  return {.node_devices = device.node_devices,
          .link_gbps = device.link_gbps,
          .network_gbps = device.network_gbps};
}

Estimate estimate(const Workload& work, const Device& device, const Network& network,
                  const Constants& constants) {
  return Step(work, device, network, constants).all();
}

}  // namespace tessera::planner
