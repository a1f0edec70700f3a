// The Llama family: RMSNorm, rotary positions, grouped queries, SwiGLU, tied or untied embeddings; with biases of q, k and v
// as Qwen 2, or norms of q and k as Qwen 3.
#include "tessera/base/error.hpp"
#include "tessera/model/attention.hpp"
#include "tessera/model/branches.hpp"
#include "tessera/model/family.hpp"
#include "tessera/parallel/dropout.hpp"
#include "tessera/parallel/layers.hpp"

namespace tessera::model {

namespace {

using parallel::Dropout;
using parallel::Rotary;
using shard::find_weight;
using shard::FlatBucket;
using shard::Weight;

class EmbeddingUnit final : public Unit {
 public:
  EmbeddingUnit(const spec::Run& run, std::span<FlatBucket> buckets)
      : table_(find_weight(buckets, "model.embed_tokens.weight")),
        drop_(run.model.dropout, run.training.seed, 0, Dropout::Place::embedding) {}
  Outcome forward(std::size_t, std::size_t, std::vector<Tensor>, const Batch& batch, Tape& tape) override {
    const Tensor x = parallel::embedding(batch.tokens_T, table_, tape.anchor(), tape.work);
    return {{drop_(x, batch.sample_indices)}, {}};
  }

 private:
  Weight& table_;
  Dropout drop_;
};

class BlockUnit final : public Unit {
 public:
  BlockUnit(const spec::Run& run, std::int64_t layer, std::span<FlatBucket> buckets, const Rotary& rotary)
      : spec_(run.model),
        layer_(static_cast<std::size_t>(layer)),
        rotary_(rotary),
        norm_1_(weight(buckets, layer, {"input_layernorm"})),
        qkv_(weight(buckets, layer, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"})),
        qkv_bias_(run.model.qkv_bias ? &bias_of_qkv(buckets, layer) : nullptr),
        q_norm_(run.model.qk_norm ? &weight(buckets, layer, {"self_attn.q_norm"}) : nullptr),
        k_norm_(run.model.qk_norm ? &weight(buckets, layer, {"self_attn.k_norm"}) : nullptr),
        out_(weight(buckets, layer, {"self_attn.o_proj"})),
        norm_2_(weight(buckets, layer, {"post_attention_layernorm"})),
        gate_up_(weight(buckets, layer, {"mlp.gate_proj", "mlp.up_proj"})),
        down_(weight(buckets, layer, {"mlp.down_proj"})),
        drop_attention_(run.model.dropout, run.training.seed, layer + 1, Dropout::Place::attention),
        drop_mlp_(run.model.dropout, run.training.seed, layer + 1, Dropout::Place::mlp) {}

  Outcome forward(std::size_t first, std::size_t count, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) override {
    auto [x, branch] = enter(first, count, std::move(values));
    for (std::size_t piece = first; piece < first + count; ++piece) {
      switch (piece) {
        case 0:
          branch = parallel::linear(norm(x, norm_1_, tape), qkv_, tape.work, qkv_bias_);
          break;
        case 1:
          branch = attend(heads(branch, batch, tape), batch, layer_);
          break;
        case 2:
          x = x.add(drop_attention_(parallel::linear(branch, out_, tape.work), batch.sample_indices));
          break;
        case 3:
          branch = parallel::linear(norm(x, norm_2_, tape), gate_up_, tape.work);
          break;
        case 4:
          branch = parallel::swiglu(branch);
          break;
        case 5:
          x = x.add(drop_mlp_(parallel::linear(branch, down_, tape.work), batch.sample_indices));
          break;
        default:
          throw Bug(cat("a Llama block has no piece ", piece));
      }
    }
    return {leave(first, count, {std::move(x), std::move(branch)}), {}};
  }

 private:
  static Weight& weight(std::span<FlatBucket> buckets, std::int64_t layer,
                        const std::vector<const char*>& parts, const char* kind = "weight") {
    std::vector<std::string> names;
    for (const char* part : parts) names.push_back(cat("model.layers.", layer, ".", part, ".", kind));
    return find_weight(buckets, names);
  }
  static Weight& bias_of_qkv(std::span<FlatBucket> buckets, std::int64_t layer) {
    return weight(buckets, layer, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, "bias");
  }
  Tensor norm(const Tensor& x, Weight& weight, Tape& tape) const {
    return tensor::rms_norm(x, tape.leaf(weight), spec_.norm_epsilon);
  }
  parallel::Heads heads(const Tensor& qkv, const Batch& batch, Tape& tape) const {
    const std::int64_t positions = qkv.size(0) / batch.samples, before = num_cached(batch, layer_);
    const Rotary turn = {rotary_.cos_S1D.narrow(0, before, positions),
                         rotary_.sin_S1H.narrow(0, before, positions)};
    if (!q_norm_) return parallel::split_and_rotate(qkv, turn, batch.samples, spec_.heads, spec_.kv_heads);
    return parallel::split_norm_and_rotate(
        qkv, {tape.wide_leaf(*q_norm_), tape.wide_leaf(*k_norm_), spec_.norm_epsilon}, turn, batch.samples,
        spec_.heads, spec_.kv_heads);
  }

  const spec::Model& spec_;
  std::size_t layer_;
  Rotary rotary_;
  Weight &norm_1_, &qkv_;
  Weight *qkv_bias_, *q_norm_, *k_norm_;  // null where the model has none
  Weight &out_, &norm_2_, &gate_up_, &down_;
  Dropout drop_attention_, drop_mlp_;
};

class HeadUnit final : public Head {
 public:
  HeadUnit(const spec::Model& spec, std::span<FlatBucket> buckets)
      : spec_(spec),
        norm_(find_weight(buckets, "model.norm.weight")),
        table_(find_weight(buckets, spec.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight")) {}

  Outcome forward(std::size_t, std::size_t, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) override {
    const Tensor x = tensor::rms_norm(values.at(0), tape.leaf(norm_), spec_.norm_epsilon);
    return {{},
            {parallel::vocabulary_loss(x, table_, batch.targets_T, tape.work, batch.head_gradient_factor)}};
  }
  Tensor logits(const Tensor& x) const override {
    return parallel::logits(tensor::rms_norm(x, norm_.value(), spec_.norm_epsilon), table_);
  }

 private:
  const spec::Model& spec_;
  Weight &norm_, &table_;
};

}  // namespace

Model make_llama(const spec::Run& run, const program::Tables& tables, const Held& held) {
  const spec::Model& spec = run.model;
  const auto dtype = shard::to_torch(tables.buckets.front().compute);
  const parallel::Frequencies frequencies{spec.rope_theta, spec.rope_scaling_factor,
                                          spec.rope_low_frequency_factor, spec.rope_high_frequency_factor,
                                          spec.rope_original_context};
  const Rotary rotary =
      parallel::rotary(spec.sequence, spec.head_size(), frequencies, dtype, held.buckets.front().device());
  Model model(tables.units.size());
  if (held.units.front()) model.front() = std::make_unique<EmbeddingUnit>(run, held.buckets);
  for (std::int64_t layer = 0; layer < spec.layers; ++layer)
    if (const auto unit = static_cast<std::size_t>(layer) + 1; held.units[unit])
      model[unit] = std::make_unique<BlockUnit>(run, layer, held.buckets, rotary);
  if (held.units.back()) model.back() = std::make_unique<HeadUnit>(spec, held.buckets);
  return model;
}

}  // namespace tessera::model
