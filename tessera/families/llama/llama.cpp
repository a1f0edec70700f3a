// The Llama family: RMSNorm, rotary positions, grouped queries, SwiGLU; with biases of q, k and v as Qwen 2,
// or norms of their heads as Qwen 3; with experts as Mixtral and Qwen 3 MoE.
#include "tessera/base/text.hpp"
#include "tessera/plan/model/decoder.hpp"
#include "tessera/plan/model/unit_allocation_events.hpp"

namespace tessera::plan {
namespace {

program::Unit block_unit(const Sizes& sizes, const spec::Model& m, const StepShape& shape,
                         std::int64_t layer) {
  const std::int64_t window = m.window_of(layer);
  Sizes s = sizes;
  s.has_documents = s.has_documents || window > 0;  // attention is computed block by block too
  const auto names = [&](std::vector<std::string> list) { return in_layer(layer, std::move(list)); };
  std::vector<std::string> of_qkv = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                     "self_attn.v_proj.weight"},
                           of_heads;
  if (m.qkv_bias)
    of_qkv.insert(of_qkv.end(), {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"});
  if (m.qk_norm) of_heads = {"self_attn.q_norm.weight", "self_attn.k_norm.weight"};
  program::Piece qkv = norm_and_product("norm+qkv", s, kRmsNorm, s.q + 2 * s.k, m.qkv_bias ? 1 : 0);
  qkv.repeated_flops = repeated_key_flops(s);
  program::Unit unit{
      cat("block.", layer),
      {made_of(qkv, {step("norm_1", {"hidden"}, {"entering_1"}, names({"input_layernorm.weight"})),
                     enter("entering_1"), step("qkv", {"entering_1"}, {"qkv"}, names(of_qkv))}),
       made_of(rotary_attention(s, m.qk_norm, window),
               {step("attention", {"qkv"}, {"attended"}, names(of_heads))}),
       made_of(product_and_residual("out", s, s.q, 0),
               {step("out", {"attended"}, {"attended_sums"}, names({"self_attn.o_proj.weight"})),
                leave("attended_sums"), linear_step("add_1", {"attended_sums", "hidden"}, {"middle"})})}};
  const BlockShape branch{
      .has_rotary = true, .has_qk_norm = m.qk_norm, .has_qkv_bias = m.qkv_bias, .is_gated = true};
  add_attention_branch_events(unit, s, branch);
  for (program::Piece& piece : feed_forward_pieces(m, shape, layer)) unit.pieces.push_back(std::move(piece));
  settle(unit);
  return unit;
}

PlacedParameters block_vectors(const spec::Model& m, std::int64_t layer) {
  const std::string block = cat("model.layers.", layer, ".");
  PlacedParameters out = {{norm_weight(block + "input_layernorm", m.hidden)}};
  const auto bias = [&](const char* name, std::int64_t size, TensorPlacement placement) {
    const program::Init zeros{program::Init::Kind::zeros, 0};
    return rows_cut({.name = cat(block, "self_attn.", name, "_proj.bias"), .shape = {size}, .init = zeros},
                    placement);
  };
  if (m.qkv_bias) {
    out.push_back(bias("q", m.query_size(), TensorPlacement::cut));
    for (const char* name : {"k", "v"}) out.push_back(bias(name, m.key_size(), TensorPlacement::with_keys));
  }
  if (m.qk_norm)
    for (const char* name : {"self_attn.q_norm", "self_attn.k_norm"})
      out.push_back({norm_weight(block + name, m.head_size()), TensorPlacement::by_heads});
  out.push_back({norm_weight(block + "post_attention_layernorm", m.hidden)});
  return out;
}

}  // namespace

ModelPlan llama_plan(const spec::Model& model, const StepShape& shape) {
  return decoder_plan(model, shape, {block_unit, attention_matrices, block_vectors});
}

}  // namespace tessera::plan
