// The Llama family: RMSNorm, rotary positions, grouped queries, SwiGLU. Parameters carry the names Hugging
// Face gives them.
#include "tessera/base/text.hpp"
#include "tessera/plan/model/family.hpp"
#include "tessera/plan/model/pieces.hpp"
#include "tessera/plan/model/unit_allocation_events.hpp"

namespace tessera::plan {
namespace {

using program::Init;
using program::Parameter;
using program::Piece;

Piece attention_piece(const Sizes& s, bool has_norm, program::Dtype compute) {
  // Rotary positions read and write q and k.
  Piece piece{
      .name = "attention",
      .flops = 4.0 * static_cast<double>(s.n) * static_cast<double>(s.sequence) * static_cast<double>(s.q),
      .bytes_read = (s.n * (s.q + s.k) + s.n * (s.q + 2 * s.k)) * s.c,
      .bytes_written = (s.n * (s.q + s.k) + s.n * s.q) * s.c + s.n * s.heads * s.a,
      .channels = s.q};
  if (has_norm) {  // squares, and q and k scaled, are written and read again
    piece.bytes_read += 3 * s.n * (s.q + s.k) * s.a;
    piece.bytes_written += 2 * s.n * (s.q + s.k) * s.a;
  }
  exchange_context(piece, s, compute);
  return piece;
}

program::Unit block_unit(const Sizes& s, const spec::Run& run, std::int64_t layer) {
  const spec::Model& m = run.model;
  // silu(gate) is written and read again.
  const Piece gate{.name = "gate",
                   .bytes_read = 3 * s.n * s.f * s.c,
                   .bytes_written = 2 * s.n * s.f * s.c,
                   .channels = s.f};
  const auto names = [&](std::vector<std::string> list) {
    for (std::string& name : list) name = cat("model.layers.", layer, ".", name);
    return list;
  };
  std::vector<std::string> of_qkv = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                     "self_attn.v_proj.weight", "input_layernorm.weight"},
                           of_heads;
  if (m.qkv_bias)
    of_qkv.insert(of_qkv.end(), {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"});
  if (m.qk_norm) of_heads = {"self_attn.q_norm.weight", "self_attn.k_norm.weight"};
  Piece qkv = norm_and_product("norm+qkv", s, kRmsNorm, s.q + 2 * s.k, m.qkv_bias ? 1 : 0);
  // One rank of those with the same keys and values would be enough.
  qkv.repeated_flops = product_flops(s.n, s.h, 2 * s.k) * (1 - 1.0 / static_cast<double>(s.tp_rep));
  program::Unit unit{
      cat("block.", layer),
      {named(qkv, {"hidden"}, {"qkv"}, names(of_qkv)),
       named(attention_piece(s, m.qk_norm, compute_dtype(run.layout.precision)), {"qkv"}, {"attended"},
             names(of_heads)),
       named(product_and_residual("out", s, s.q, 0), {"attended", "hidden"}, {"middle"},
             names({"self_attn.o_proj.weight"})),
       named(norm_and_product("norm+up", s, kRmsNorm, 2 * s.f, 0), {"middle"}, {"gate_up"},
             names({"mlp.gate_proj.weight", "mlp.up_proj.weight", "post_attention_layernorm.weight"})),
       named(gate, {"gate_up"}, {"gated"}),
       named(product_and_residual("down", s, s.f, 0), {"gated", "middle"}, {"hidden"},
             names({"mlp.down_proj.weight"}))}};
  add_block_events(
      unit, s, {.has_rotary = true, .has_qk_norm = m.qk_norm, .has_qkv_bias = m.qkv_bias, .is_gated = true});
  return unit;
}

PlacedParameters block_parameters(const spec::Model& m, std::int64_t layer) {
  const std::int64_t q = m.query_size(), kv = m.key_size();
  const Init init = normal(m.init_std), residual = residual_normal(m);
  const auto parameter = [&](const char* name, std::int64_t out, std::int64_t in, const Init& how) {
    return Parameter{
        .name = cat("model.layers.", layer, ".", name, "_proj.weight"), .shape = {out, in}, .init = how};
  };
  return {rows_cut(parameter("self_attn.q", q, m.hidden, init)),
          rows_cut(parameter("self_attn.k", kv, m.hidden, init), TensorPlacement::with_keys),
          rows_cut(parameter("self_attn.v", kv, m.hidden, init), TensorPlacement::with_keys),
          columns_cut(parameter("self_attn.o", m.hidden, q, residual)),
          rows_cut(parameter("mlp.gate", m.ffn, m.hidden, init)),
          rows_cut(parameter("mlp.up", m.ffn, m.hidden, init)),
          columns_cut(parameter("mlp.down", m.hidden, m.ffn, residual))};
}

Parameter norm_parameter(const std::string& name, std::int64_t size) {
  return {.name = name + ".weight", .shape = {size}, .init = {Init::Kind::ones, 0}};
}

PlacedParameters block_vectors(const spec::Model& m, std::int64_t layer) {
  const std::string block = cat("model.layers.", layer, ".");
  PlacedParameters out = {{norm_parameter(block + "input_layernorm", m.hidden)}};
  const auto bias = [&](const char* name, std::int64_t size, TensorPlacement placement) {
    const Init zeros{Init::Kind::zeros, 0};
    return rows_cut({.name = cat(block, "self_attn.", name, "_proj.bias"), .shape = {size}, .init = zeros},
                    placement);
  };
  if (m.qkv_bias) {
    out.push_back(bias("q", m.query_size(), TensorPlacement::cut));
    for (const char* name : {"k", "v"}) out.push_back(bias(name, m.key_size(), TensorPlacement::with_keys));
  }
  if (m.qk_norm)
    for (const char* name : {"self_attn.q_norm", "self_attn.k_norm"})
      out.push_back({norm_parameter(block + name, m.head_size()), TensorPlacement::by_heads});
  out.push_back({norm_parameter(block + "post_attention_layernorm", m.hidden)});
  return out;
}

}  // namespace

Blueprint llama_blueprint(const spec::Run& run) {
  const Sizes s(run);
  const spec::Model& m = run.model;
  const auto table = [&](const char* name) {
    return PlacedParameters{
        rows_cut({.name = name, .shape = {m.vocab, m.hidden}, .init = normal(m.init_std)})};
  };
  Blueprint out;
  const char* rows = "model.embed_tokens.weight";
  out.embedding = {"embedding", {named(lookup(s, 1), {"tokens"}, {"hidden"}, {rows})}};
  out.head = {
      "head",
      {named(norm(s, kRmsNorm), {"hidden"}, {"normed"}, {"model.norm.weight"}),
       named(loss(s), {"normed", "targets"}, {"loss"}, {m.tied_embeddings ? rows : "lm_head.weight"})}};
  add_lookup_events(out.embedding, s, 1);
  add_head_events(out.head, s, false);
  out.embedding_parameters = table(rows);
  if (!m.tied_embeddings) out.head_parameters = table("lm_head.weight");
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    out.blocks.push_back(block_unit(s, run, layer));
    out.block_parameters.push_back(block_parameters(m, layer));
    out.block_vectors.push_back(block_vectors(m, layer));
  }
  out.head_vectors = {{norm_parameter("model.norm", m.hidden)}};
  return out;
}

}  // namespace tessera::plan
