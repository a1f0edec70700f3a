// DeepSeek-V3: latent attention, experts with shared ones.
#include "tessera/model/decoder.hpp"

namespace tessera::model {
namespace {

using shard::Weight;

// Latent channels are normed with this, whatever model.norm_epsilon says.
constexpr double kLatentEpsilon = 1e-6;

// Pairs of neighbours are turned; they come out as halves, of queries and of keys alike. x is [B,S,N,D].
Tensor turned(const Tensor& x, const parallel::Rotary& rotary) {
  const std::int64_t half = x.size(-1) / 2;
  const Tensor pairs = x.unflatten(-1, {half, 2}), a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  const Tensor cos = rotary.cos_S1D.narrow(-1, 0, half), sin = rotary.sin_S1H;
  return tensor::concatenate({a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))}, -1);
}

class DeepseekBlock final : public DecoderBlock {
 public:
  DeepseekBlock(const program::Unit& described, const spec::Model& spec, std::int64_t layer,
                const RankModel& held, const parallel::Rotary& rotary)
      : DecoderBlock(described, spec, layer, held, rotary),
        q_a_(weight({"self_attn.q_a_proj"})),
        kv_a_(weight({"self_attn.kv_a_proj_with_mqa"})),
        q_b_(weight({"self_attn.q_b_proj"})),
        kv_b_(weight({"self_attn.kv_b_proj"})),
        q_norm_(weight({"self_attn.q_a_layernorm"})),
        kv_norm_(weight({"self_attn.kv_a_layernorm"})) {
    add_norm("norm_1", "hidden", weight({"input_layernorm"}));
    add("latent", [this](const StepCall& v) { return latent(v["entering_1"], v.tape); });
    add("heads", [this](const StepCall& v) { return projected(v["latent"], v.tape); });
    add("attention", [this](const StepCall& v) { return attended(v["qkv"], v); });
    add_norm("norm_2", "middle", weight({"post_attention_layernorm"}));
    add_sums("attended_sums", add_feed_forward());
    check_complete();
  }

 private:
  Tensor latent(const Tensor& x, Tape& tape) const {
    const Tensor q = parallel::linear(x, q_a_, tape.work), kv = parallel::linear(x, kv_a_, tape.work);
    return tensor::concatenate(
        {tensor::rms_norm(q, tape.leaf(q_norm_), kLatentEpsilon),
         tensor::rms_norm(kv.narrow(1, 0, spec_.kv_rank), tape.leaf(kv_norm_), kLatentEpsilon),
         kv.narrow(1, spec_.kv_rank, spec_.turned_size())},
        1);
  }

  // Queries, keys that are not turned with values, and the channels that are turned.
  Tensor projected(const Tensor& entering, Tape& tape) const {
    const Tensor all = context().regathers ? from_stream(entering, context()) : entering;
    const auto part = [&](std::int64_t first, std::int64_t count) {
      return all.narrow(1, first, count).contiguous();
    };
    const std::int64_t q = spec_.q_rank, kv = spec_.kv_rank;
    return tensor::concatenate(
        {parallel::linear(part(0, q), q_b_, tape.work), parallel::linear(part(q, kv), kv_b_, tape.work),
         all.narrow(1, q + kv, spec_.turned_size())},
        1);
  }

  Tensor attended(const Tensor& qkv, const StepCall& v) const {
    const Batch& batch = v.branch;
    const std::int64_t turning = spec_.turned_size(), channels = spec_.head_size(), kept = channels - turning,
                       values = spec_.value_size();
    const auto by_head = [&](std::int64_t first, std::int64_t heads, std::int64_t width) {
      return qkv.narrow(1, first, heads * width).reshape({batch.samples, -1, heads, width});
    };
    const parallel::Rotary rotary = turn(qkv, batch);
    const Tensor q = by_head(0, heads_, channels), kv = by_head(heads_ * channels, heads_, kept + values),
                 shared = by_head(heads_ * (channels + kept + values), 1, turning);
    const Tensor queries =
        tensor::concatenate({q.narrow(3, 0, kept), turned(q.narrow(3, kept, turning), rotary)}, 3);
    const Tensor keys =
        tensor::concatenate({kv.narrow(3, 0, kept), turned(shared, rotary).expand({-1, -1, heads_, -1})}, 3);
    auto sizes = kv.sizes().vec();
    sizes.back() = channels - values;
    const Tensor filled = tensor::concatenate(
        {kv.narrow(3, kept, values), tensor::zeros(sizes, kv.scalar_type(), kv.device())}, 3);
    const auto heads_first = [](const Tensor& t) { return t.transpose(1, 2); };
    const Tensor out =
        attend({heads_first(spec_.attention_scale == 1 ? queries : queries.mul(spec_.attention_scale)),
                heads_first(keys), heads_first(filled)},
               v);
    return out.view({-1, heads_, channels}).narrow(2, 0, values).reshape({out.size(0), heads_ * values});
  }

  Weight &q_a_, &kv_a_, &q_b_, &kv_b_, &q_norm_, &kv_norm_;
};

}  // namespace

Model make_deepseek(const spec::Model& spec, const program::Tables& tables, const RankModel& held) {
  return make_decoder<DeepseekBlock>(spec, tables, held);
}

}  // namespace tessera::model
