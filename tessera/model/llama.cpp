#include "tessera/model/llama.hpp"

#include "tessera/base/error.hpp"
#include "tessera/parallel/layers.hpp"

namespace tessera::model {

namespace {

using parallel::Rotary;
using shard::FlatBucket;
using shard::Weight;

// The weight of these parameters, wherever the tables put them.
Weight& find(std::span<FlatBucket> buckets, const std::vector<std::string>& names) {
  for (FlatBucket& bucket : buckets)
    for (const auto& parameter : bucket.table().parameters)
      if (parameter.name == names.front()) return bucket.weight(names);
  throw Bug(cat("no bucket holds ", names.front()));
}
Weight& find(std::span<FlatBucket> buckets, const std::string& name) {
  return find(buckets, std::vector{name});
}

class EmbeddingUnit final : public Unit {
 public:
  explicit EmbeddingUnit(std::span<FlatBucket> buckets)
      : table_(find(buckets, "model.embed_tokens.weight")) {}
  Outcome forward(std::size_t, std::size_t, std::vector<Tensor>, const Batch& batch, Tape& tape) override {
    return {{parallel::embedding(batch.tokens_T, table_, tape.anchor(), tape.work)}, {}};
  }

 private:
  Weight& table_;
};

// Values between the pieces: x alone, or x and what the next piece works on.
class BlockUnit final : public Unit {
 public:
  BlockUnit(const spec::Model& spec, std::int64_t layer, std::span<FlatBucket> buckets, const Rotary& rotary)
      : spec_(spec),
        layer_(static_cast<std::size_t>(layer)),
        rotary_(rotary),
        norm_1_(find(buckets, name(layer, "input_layernorm"))),
        qkv_(find(buckets, {name(layer, "self_attn.q_proj"), name(layer, "self_attn.k_proj"),
                            name(layer, "self_attn.v_proj")})),
        out_(find(buckets, name(layer, "self_attn.o_proj"))),
        norm_2_(find(buckets, name(layer, "post_attention_layernorm"))),
        gate_up_(find(buckets, {name(layer, "mlp.gate_proj"), name(layer, "mlp.up_proj")})),
        down_(find(buckets, name(layer, "mlp.down_proj"))) {}

  Outcome forward(std::size_t first, std::size_t count, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) override {
    for (std::size_t piece = first; piece < first + count; ++piece) {
      const Tensor x = values.at(0);
      switch (piece) {
        case 0:
          values = {x, parallel::linear(norm(x, norm_1_, tape), qkv_, tape.work)};
          break;
        case 1:
          values = {x, attention(values.at(1), batch)};
          break;
        case 2:
          values = {x.add(parallel::linear(values.at(1), out_, tape.work))};
          break;
        case 3:
          values = {x, parallel::linear(norm(x, norm_2_, tape), gate_up_, tape.work)};
          break;
        case 4:
          values = {x, parallel::swiglu(values.at(1))};
          break;
        case 5:
          values = {x.add(parallel::linear(values.at(1), down_, tape.work))};
          break;
        default:
          throw Bug(cat("a Llama block has no piece ", piece));
      }
    }
    return {std::move(values), {}};
  }

 private:
  static std::string name(std::int64_t layer, const char* what) {
    return cat("model.layers.", layer, ".", what, ".weight");
  }
  Tensor norm(const Tensor& x, Weight& weight, Tape& tape) const {
    return tensor::rms_norm(x, tape.leaf(weight), spec_.norm_epsilon);
  }
  Tensor attention(const Tensor& qkv, const Batch& batch) const {
    const std::int64_t positions = qkv.size(0) / batch.samples, before = seen(batch);
    CHECK(before == 0 || positions == 1, "a cache is extended by one position at a time, not by ", positions);
    const Rotary turn = {rotary_.cos_S1D.narrow(0, before, positions),
                         rotary_.sin_S1H.narrow(0, before, positions)};
    auto heads = parallel::split_and_rotate(qkv, turn, batch.samples, spec_.heads, spec_.kv_heads);
    if (batch.cache) extend(*batch.cache, heads);
    const Tensor out = tensor::attention(heads.q, heads.k, heads.v, /*causal=*/before == 0);
    return out.transpose(1, 2).reshape({qkv.size(0), -1});
  }
  std::int64_t seen(const Batch& batch) const {
    return batch.cache && layer_ < batch.cache->keys.size() ? batch.cache->keys[layer_].size(2) : 0;
  }
  void extend(Cache& cache, parallel::Heads& heads) const {
    const auto append = [&](std::vector<Tensor>& kept, Tensor& fresh) {
      if (layer_ == kept.size())
        kept.push_back(fresh);
      else
        kept[layer_] = fresh = tensor::concatenate({kept[layer_], fresh}, 2);
    };
    append(cache.keys, heads.k);
    append(cache.values, heads.v);
  }

  const spec::Model& spec_;
  std::size_t layer_;
  Rotary rotary_;
  Weight &norm_1_, &qkv_, &out_, &norm_2_, &gate_up_, &down_;
};

class HeadUnit final : public Unit {
 public:
  HeadUnit(const spec::Model& spec, std::span<FlatBucket> buckets)
      : spec_(spec),
        norm_(find(buckets, "model.norm.weight")),
        table_(find(buckets, spec.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight")) {}

  Outcome forward(std::size_t, std::size_t, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) override {
    const Tensor x = tensor::rms_norm(values.at(0), tape.leaf(norm_), spec_.norm_epsilon);
    return {{}, {parallel::vocabulary_loss(x, table_, batch.targets_T, tape.work)}};
  }
  Tensor logits(const Tensor& x) const {
    return parallel::logits(tensor::rms_norm(x, norm_.value(), spec_.norm_epsilon), table_);
  }

 private:
  const spec::Model& spec_;
  Weight &norm_, &table_;
};

}  // namespace

Model make_llama(const spec::Model& spec, const program::Tables& tables, std::span<FlatBucket> buckets) {
  CHECK(tables.units.size() == static_cast<std::size_t>(spec.layers) + 2,
        "units do not match the model's layers");
  const auto dtype = shard::to_torch(tables.buckets.front().compute);
  const Rotary rotary = parallel::rotary(spec.sequence, spec.head_dim(), spec.rope_theta, dtype);
  Model model;
  model.push_back(std::make_unique<EmbeddingUnit>(buckets));
  for (std::int64_t layer = 0; layer < spec.layers; ++layer)
    model.push_back(std::make_unique<BlockUnit>(spec, layer, buckets, rotary));
  model.push_back(std::make_unique<HeadUnit>(spec, buckets));
  return model;
}

Tensor llama_logits(Model& model, const program::Tables& tables, const Batch& batch) {
  const at::NoGradGuard no_gradient;
  Tape tape;
  std::vector<Tensor> values;
  for (std::size_t unit = 0; unit + 1 < model.size(); ++unit)
    values = model[unit]->forward(0, tables.units[unit].pieces.size(), std::move(values), batch, tape).values;
  return static_cast<HeadUnit&>(*model.back()).logits(values.at(0));
}

}  // namespace tessera::model
