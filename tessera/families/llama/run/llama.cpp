// The Llama family: norms before the branches; with biases of q, k and v as Qwen 2, or norms of their heads
// as Qwen 3.
#include "tessera/model/decoder.hpp"

namespace tessera::model {
namespace {

using shard::Weight;

class LlamaBlock final : public DecoderBlock {
 public:
  LlamaBlock(const program::Unit& described, const spec::Model& spec, std::int64_t layer,
             const RankModel& held, const parallel::Rotary& rotary)
      : DecoderBlock(described, spec, layer, held, rotary),
        q_norm_(spec.qk_norm ? &weight({"self_attn.q_norm"}) : nullptr),
        k_norm_(spec.qk_norm ? &weight({"self_attn.k_norm"}) : nullptr) {
    add_norm("norm_1", "hidden", weight({"input_layernorm"}));
    add_projections();
    add("attention", [this](const StepCall& v) { return attend(heads(v["qkv"], v.branch, v.tape), v); });
    add_norm("norm_2", "middle", weight({"post_attention_layernorm"}));
    add_sums("attended_sums", add_feed_forward());
    check_complete();
  }

 private:
  parallel::Heads heads(const Tensor& qkv, const Batch& batch, Tape& tape) const {
    if (!q_norm_) return parallel::split_and_rotate(qkv, turn(qkv, batch), batch.samples, heads_, kv_heads_);
    return parallel::split_norm_and_rotate(
        qkv, {tape.wide_leaf(*q_norm_), tape.wide_leaf(*k_norm_), spec_.norm_epsilon}, turn(qkv, batch),
        batch.samples, heads_, kv_heads_);
  }

  Weight *q_norm_, *k_norm_;  // null where the model has none
};

}  // namespace

Model make_llama(const spec::Model& spec, const program::Tables& tables, const RankModel& held) {
  return make_decoder<LlamaBlock>(spec, tables, held);
}

}  // namespace tessera::model
