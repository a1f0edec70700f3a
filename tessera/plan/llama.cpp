// The Llama family: RMSNorm, rotary positions, grouped queries, SwiGLU. Parameters carry the names Hugging Face gives
// them.
#include "tessera/base/text.hpp"
#include "tessera/plan/family.hpp"
#include "tessera/plan/pieces.hpp"
#include "tessera/plan/unit_moments.hpp"

namespace tessera::plan {
namespace {

using program::Init;
using program::Parameter;
using program::Piece;

program::Unit block_unit(const Sizes& s, std::int64_t layer) {
  // Rotary positions read and write q and k.
  const Piece attention{
      .name = "attention",
      .flops = 4.0 * static_cast<double>(s.n) * static_cast<double>(s.sequence) * static_cast<double>(s.h),
      .bytes_read = (s.n * (s.h + s.k) + s.n * (s.h + 2 * s.k)) * s.c,
      .bytes_written = (s.n * (s.h + s.k) + s.n * s.h) * s.c + s.n * s.heads * s.a,
      .channels = s.h};
  // silu(gate) is written and read again.
  const Piece gate{.name = "gate",
                   .bytes_read = 3 * s.n * s.f * s.c,
                   .bytes_written = 2 * s.n * s.f * s.c,
                   .channels = s.f};
  program::Unit unit{cat("block.", layer),
                     {named(norm_and_product("norm+qkv", s, kRmsNorm, s.h + 2 * s.k, 0), {"hidden"}, {"qkv"}),
                      named(attention, {"qkv"}, {"attended"}),
                      named(product_and_residual("out", s, s.h, 0), {"attended", "hidden"}, {"middle"}),
                      named(norm_and_product("norm+up", s, kRmsNorm, 2 * s.f, 0), {"middle"}, {"gate_up"}),
                      named(gate, {"gate_up"}, {"gated"}),
                      named(product_and_residual("down", s, s.f, 0), {"gated", "middle"}, {"hidden"})}};
  add_block_moments(unit, s, {.has_rotary = true, .is_gated = true});
  return unit;
}

std::vector<Parameter> block_parameters(const spec::Model& m, std::int64_t layer) {
  const std::int64_t kv = m.kv_heads * m.head_dim();
  const Init init = normal(m.init_std), residual = residual_normal(m);
  const auto parameter = [&](const char* name, std::int64_t out, std::int64_t in, const Init& how) {
    return Parameter{
        .name = cat("model.layers.", layer, ".", name, "_proj.weight"), .shape = {out, in}, .init = how};
  };
  return {parameter("self_attn.q", m.hidden, m.hidden, init),
          parameter("self_attn.k", kv, m.hidden, init),
          parameter("self_attn.v", kv, m.hidden, init),
          parameter("self_attn.o", m.hidden, m.hidden, residual),
          parameter("mlp.gate", m.ffn, m.hidden, init),
          parameter("mlp.up", m.ffn, m.hidden, init),
          parameter("mlp.down", m.hidden, m.ffn, residual)};
}

Parameter norm_parameter(const spec::Model& m, const std::string& name) {
  return {.name = name, .shape = {m.hidden}, .init = {Init::Kind::ones, 0}};
}

}  // namespace

Blueprint llama_blueprint(const spec::Run& run) {
  const Sizes s(run);
  const spec::Model& m = run.model;
  const auto table = [&](const char* name) {
    return std::vector<Parameter>{{.name = name, .shape = {m.vocab, m.hidden}, .init = normal(m.init_std)}};
  };
  Blueprint out;
  out.embedding = {"embedding", {named(lookup(s, 1), {"tokens"}, {"hidden"})}};
  out.head = {
      "head",
      {named(norm(s, kRmsNorm), {"hidden"}, {"normed"}), named(loss(s), {"normed", "targets"}, {"loss"})}};
  add_lookup_moments(out.embedding, s, 1);
  add_head_moments(out.head, s, false);
  out.embedding_parameters = table("model.embed_tokens.weight");
  if (!m.tied_embeddings) out.head_parameters = table("lm_head.weight");
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    out.blocks.push_back(block_unit(s, layer));
    out.block_parameters.push_back(block_parameters(m, layer));
    out.block_vectors.push_back(
        {norm_parameter(m, cat("model.layers.", layer, ".input_layernorm.weight")),
         norm_parameter(m, cat("model.layers.", layer, ".post_attention_layernorm.weight"))});
  }
  out.head_vectors = {norm_parameter(m, "model.norm.weight")};
  return out;
}

}  // namespace tessera::plan
