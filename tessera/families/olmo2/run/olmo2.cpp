// OLMo 2: norms after the branches, and over all channels of q and of k.
#include "tessera/families/olmo2/run/channel_norm.hpp"
#include "tessera/model/decoder.hpp"

namespace tessera::model {
namespace {

using shard::Weight;

class Olmo2Block final : public DecoderBlock {
 public:
  Olmo2Block(const program::Unit& described, const spec::Model& spec, std::int64_t layer,
             const RankModel& held, const parallel::Rotary& rotary)
      : DecoderBlock(described, spec, layer, held, rotary),
        q_norm_(weight({"self_attn.q_norm"})),
        k_norm_(weight({"self_attn.k_norm"})) {
    add_projections();
    add("stream_1", [](const StepCall& v) { return v["hidden"]; });
    add("attention", [this](const StepCall& v) {
      const Tensor normed = norm_channels(v["qkv"], channel_norm(v.tape), context());
      return attend(
          parallel::split_and_rotate(normed, turn(normed, v.branch), v.branch.samples, heads_, kv_heads_), v);
    });
    add_norm("norm_1", "attended_sums", weight({"post_attention_layernorm"}));
    add("stream_2", [](const StepCall& v) { return v["middle"]; });
    add_norm("norm_2", "fed_sums", weight({"post_feedforward_layernorm"}));
    add_feed_forward();
    add_sums("attended_normed", "fed_normed");
    check_complete();
  }

 private:
  ChannelNorm channel_norm(Tape& tape) const {
    return {
        tape.wide_leaf(q_norm_), tape.wide_leaf(k_norm_), spec_.query_size(), spec_.key_size(), key_copies_,
        spec_.norm_epsilon};
  }

  Weight &q_norm_, &k_norm_;
};

}  // namespace

Model make_olmo2(const spec::Model& spec, const program::Tables& tables, const RankModel& held) {
  return make_decoder<Olmo2Block>(spec, tables, held);
}

}  // namespace tessera::model
