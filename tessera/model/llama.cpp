// The Llama family: RMSNorm, rotary positions, grouped queries, SwiGLU, tied or untied embeddings; with
// biases of q, k and v as Qwen 2, or norms of q and k as Qwen 3.
#include "tessera/base/error.hpp"
#include "tessera/model/attention.hpp"
#include "tessera/model/branches.hpp"
#include "tessera/model/family.hpp"
#include "tessera/parallel/dropout.hpp"
#include "tessera/parallel/layers.hpp"

namespace tessera::model {

namespace {

using parallel::Dropout;
using parallel::ParallelContext;
using parallel::Rotary;
using shard::find_weight;
using shard::FlatBucket;
using shard::Weight;

class EmbeddingUnit final : public Unit {
 public:
  EmbeddingUnit(const spec::Run& run, const RankModel& held)
      : context_(held.context),
        table_(find_weight(held.buckets, "model.embed_tokens.weight")),
        drop_(run.model.dropout, run.training.seed, 0, Dropout::Place::embedding) {}
  Outcome forward(std::size_t, std::size_t, std::vector<Tensor>, const Batch& batch, Tape& tape) override {
    const Tensor x =
        parallel::embedding_to_stream(batch.tokens_T, table_, tape.anchor(), tape.work, context_);
    return {{drop_(x, stream_rows(context_, batch.sample_indices))}, {}};
  }

 private:
  const ParallelContext& context_;
  Weight& table_;
  Dropout drop_;
};

class BlockUnit final : public Unit {
 public:
  BlockUnit(const spec::Run& run, std::int64_t layer, const RankModel& held, const Rotary& rotary)
      : spec_(run.model),
        layer_(static_cast<std::size_t>(layer)),
        context_(held.context),
        heads_(run.model.heads / run.layout.tp),
        kv_heads_(run.model.kv_heads / run.tp_kv()),
        rotary_(rotary),
        norm_1_(weight(held.buckets, layer, {"input_layernorm"})),
        qkv_(projections(run, layer, held.buckets)),
        q_norm_(run.model.qk_norm ? &weight(held.buckets, layer, {"self_attn.q_norm"}) : nullptr),
        k_norm_(run.model.qk_norm ? &weight(held.buckets, layer, {"self_attn.k_norm"}) : nullptr),
        out_(weight(held.buckets, layer, {"self_attn.o_proj"})),
        norm_2_(weight(held.buckets, layer, {"post_attention_layernorm"})),
        gate_up_(weight(held.buckets, layer, {"mlp.gate_proj", "mlp.up_proj"})),
        down_(weight(held.buckets, layer, {"mlp.down_proj"})),
        drop_attention_(run.model.dropout, run.training.seed, layer + 1, Dropout::Place::attention),
        drop_mlp_(run.model.dropout, run.training.seed, layer + 1, Dropout::Place::mlp) {}

  Outcome forward(std::size_t first, std::size_t count, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) override {
    if (context_.opened) return forward_opened(first, count, std::move(values), batch, tape);
    auto [x, branch] = enter(first, count, std::move(values));
    const parallel::Rows rows = stream_rows(context_, batch.sample_indices);
    for (std::size_t piece = first; piece < first + count; ++piece) {
      switch (piece) {
        case 0:
          branch = queries_keys_and_values(from_stream(norm(x, norm_1_, tape), context_), tape);
          break;
        case 1:
          branch = attend(heads(branch, batch, tape), batch, layer_, context_.cp);
          break;
        case 2:
          x = x.add(drop_attention_(parallel::linear_to_stream(branch, out_, tape.work, context_), rows));
          break;
        case 3:
          branch = parallel::linear(from_stream(norm(x, norm_2_, tape), context_), gate_up_, tape.work);
          break;
        case 4:
          branch = parallel::swiglu(branch);
          break;
        case 5:
          x = x.add(drop_mlp_(parallel::linear_to_stream(branch, down_, tape.work, context_), rows));
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
  struct Projection {
    Weight* weight;
    Weight* bias;  // null: none
  };
  // See plan/model/open.hpp.
  Outcome forward_opened(std::size_t piece, std::size_t count, std::vector<Tensor> values, const Batch& batch,
                         Tape& tape) {
    TESSERA_CHECK(count == 1, "opened blocks are cut between all pieces");
    const parallel::Rows rows = stream_rows(context_, batch.sample_indices);
    switch (piece) {
      case 0:
        return {{norm(values.at(0), norm_1_, tape)}, {}};
      case 1: {
        const Tensor qkv = queries_keys_and_values(values.at(0), tape);
        const Tensor attended = attend(heads(qkv, batch, tape), batch, layer_, context_.cp);
        return {{parallel::linear(attended, out_, tape.work)}, {}};
      }
      case 2: {
        const Tensor middle = values.at(1).add(drop_attention_(values.at(0), rows));
        return {{middle, norm(middle, norm_2_, tape)}, {}};
      }
      case 3: {
        const Tensor fed = parallel::swiglu(parallel::linear(values.at(0), gate_up_, tape.work));
        return {{parallel::linear(fed, down_, tape.work)}, {}};
      }
      case 4:
        return {{values.at(1).add(drop_mlp_(values.at(0), rows))}, {}};
      default:
        throw Bug(cat("an opened block has no piece ", piece));
    }
  }
  // One product, or two if keys and values lie apart from the queries because several ranks share them.
  static std::vector<Projection> projections(const spec::Run& run, std::int64_t layer,
                                             std::span<FlatBucket> buckets) {
    const auto projection = [&](const std::vector<const char*>& parts) {
      return Projection{&weight(buckets, layer, parts),
                        run.model.qkv_bias ? &weight(buckets, layer, parts, "bias") : nullptr};
    };
    if (run.tp_rep() == 1) return {projection({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"})};
    return {projection({"self_attn.q_proj"}), projection({"self_attn.k_proj", "self_attn.v_proj"})};
  }
  Tensor queries_keys_and_values(const Tensor& x, Tape& tape) const {
    std::vector<Tensor> out;
    for (const auto& [weight, bias] : qkv_) out.push_back(parallel::linear(x, *weight, tape.work, bias));
    return out.size() == 1 ? out.front() : tensor::concatenate(out, 1);
  }
  Tensor norm(const Tensor& x, Weight& weight, Tape& tape) const {
    return tensor::rms_norm(x, tape.leaf(weight), spec_.norm_epsilon);
  }
  parallel::Heads heads(const Tensor& qkv, const Batch& batch, Tape& tape) const {
    const std::int64_t positions = qkv.size(0) / batch.samples, before = num_cached(batch, layer_);
    const Rotary turn = {rotary_.cos_S1D.narrow(0, before, positions),
                         rotary_.sin_S1H.narrow(0, before, positions)};
    if (!q_norm_) return parallel::split_and_rotate(qkv, turn, batch.samples, heads_, kv_heads_);
    return parallel::split_norm_and_rotate(
        qkv, {tape.wide_leaf(*q_norm_), tape.wide_leaf(*k_norm_), spec_.norm_epsilon}, turn, batch.samples,
        heads_, kv_heads_);
  }

  const spec::Model& spec_;
  std::size_t layer_;
  const ParallelContext& context_;
  std::int64_t heads_, kv_heads_;  // of this rank
  Rotary rotary_;
  Weight& norm_1_;
  std::vector<Projection> qkv_;
  Weight *q_norm_, *k_norm_;  // null where the model has none
  Weight &out_, &norm_2_, &gate_up_, &down_;
  Dropout drop_attention_, drop_mlp_;
};

class HeadUnit final : public Head {
 public:
  HeadUnit(const spec::Model& spec, const RankModel& held)
      : spec_(spec),
        context_(held.context),
        norm_(find_weight(held.buckets, "model.norm.weight")),
        table_(find_weight(held.buckets,
                           spec.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight")) {}

  Outcome forward(std::size_t, std::size_t, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) override {
    const Tensor x = tensor::rms_norm(values.at(0), tape.leaf(norm_), spec_.norm_epsilon);
    return {{},
            {parallel::vocabulary_loss(x, table_, batch.targets_T, tape.work, context_,
                                       batch.head_gradient_factor)}};
  }
  Tensor logits(const Tensor& x) const override {
    return parallel::logits(tensor::rms_norm(x, norm_.value(), spec_.norm_epsilon), table_);
  }

 private:
  const spec::Model& spec_;
  const ParallelContext& context_;
  Weight &norm_, &table_;
};

}  // namespace

Model make_llama(const spec::Run& run, const program::Tables& tables, const RankModel& held) {
  const spec::Model& spec = run.model;
  const auto dtype = shard::to_torch(tables.buckets.front().compute);
  const parallel::Frequencies frequencies{spec.rope_theta, spec.rope_scaling_factor,
                                          spec.rope_low_frequency_factor, spec.rope_high_frequency_factor,
                                          spec.rope_original_context};
  const Rotary rotary = parallel::rotary(held.context.positions, spec.head_size(), frequencies, dtype,
                                         held.buckets.front().device());
  Model model(tables.units.size());
  if (held.units.front()) model.front() = std::make_unique<EmbeddingUnit>(run, held);
  for (std::int64_t layer = 0; layer < spec.layers; ++layer)
    if (const auto unit = static_cast<std::size_t>(layer) + 1; held.units[unit])
      model[unit] = std::make_unique<BlockUnit>(run, layer, held, rotary);
  if (held.units.back()) model.back() = std::make_unique<HeadUnit>(spec, held);
  return model;
}

}  // namespace tessera::model
