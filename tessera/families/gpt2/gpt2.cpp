// The GPT-2 family: LayerNorm, learnt positions, GELU, biases everywhere. Names follow Hugging Face's where
// the tensor is the same; the matrices of a block are called *_proj because theirs are [in, out] and fuse q,
// k and v (huggingface.cpp says which is which).
#include "tessera/base/text.hpp"
#include "tessera/plan/model/family.hpp"
#include "tessera/plan/model/pieces.hpp"
#include "tessera/plan/model/unit_allocation_events.hpp"

namespace tessera::plan {
namespace {

using program::Init;
using program::Parameter;
using program::Piece;

program::Unit block_unit(const Sizes& s, std::int64_t layer) {
  // q, k and v are views of the fused product.
  Piece attention{
      .name = "attention",
      .flops = 4.0 * static_cast<double>(s.n) * static_cast<double>(s.sequence) * static_cast<double>(s.q),
      .bytes_read = 3 * s.n * s.q * s.c,
      .bytes_written = s.n * s.q * s.c + s.n * s.heads * s.a,
      .channels = s.q};
  exchange_context(attention, s);
  const Piece gelu{
      .name = "gelu", .bytes_read = s.n * s.f * s.c, .bytes_written = s.n * s.f * s.c, .channels = s.f};
  const auto weight = [&](const char* name) { return cat("transformer.h.", layer, ".", name, ".weight"); };
  const auto bias_name = [&](const char* name) { return cat("transformer.h.", layer, ".", name, ".bias"); };
  // Weights and biases of these.
  const auto names = [&](std::initializer_list<const char*> layers) {
    std::vector<std::string> list;
    for (const char* name : layers) list.insert(list.end(), {weight(name), bias_name(name)});
    return list;
  };
  program::Unit unit{
      cat("block.", layer),
      {made_of(norm_and_product("norm+qkv", s, kLayerNorm, 3 * s.q, 1),
               {step("norm_1", {"hidden"}, {"entering_1"}, names({"ln_1"})), enter("entering_1"),
                step("qkv", {"entering_1"}, {"qkv"}, names({"attn.q_proj", "attn.k_proj", "attn.v_proj"}))}),
       made_of(attention, {step("attention", {"qkv"}, {"attended"})}),
       made_of(
           product_and_residual("out", s, s.q, 1),
           {step("out", {"attended"}, {"attended_sums"}, {weight("attn.out_proj")}), leave("attended_sums"),
            linear_step("add_1", {"attended_sums", "hidden"}, {"middle"}, {bias_name("attn.out_proj")})}),
       made_of(norm_and_product("norm+up", s, kLayerNorm, s.f, 1),
               {step("norm_2", {"middle"}, {"entering_2"}, names({"ln_2"})), enter("entering_2"),
                step("up", {"entering_2"}, {"up"}, names({"mlp.up_proj"}))}),
       made_of(gelu, {step("gelu", {"up"}, {"activated"})}),
       made_of(product_and_residual("down", s, s.f, 1),
               {step("down", {"activated"}, {"fed_sums"}, {weight("mlp.down_proj")}), leave("fed_sums"),
                linear_step("add_2", {"fed_sums", "middle"}, {"hidden"}, {bias_name("mlp.down_proj")})})}};
  add_block_events(unit, s, {.has_mean = true, .has_bias = true});
  return unit;
}

PlacedParameters block_parameters(const spec::Model& m, std::int64_t layer) {
  const Init init = normal(m.init_std), residual = residual_normal(m);
  const auto parameter = [&](const char* name, std::int64_t out, std::int64_t in, const Init& how) {
    return Parameter{
        .name = cat("transformer.h.", layer, ".", name, "_proj.weight"), .shape = {out, in}, .init = how};
  };
  return {rows_cut(parameter("attn.q", m.hidden, m.hidden, init)),
          rows_cut(parameter("attn.k", m.hidden, m.hidden, init), TensorPlacement::with_keys),
          rows_cut(parameter("attn.v", m.hidden, m.hidden, init), TensorPlacement::with_keys),
          columns_cut(parameter("attn.out", m.hidden, m.hidden, residual)),
          rows_cut(parameter("mlp.up", m.ffn, m.hidden, init)),
          columns_cut(parameter("mlp.down", m.hidden, m.ffn, residual))};
}

Parameter bias(const std::string& name, std::int64_t size) {
  return {.name = name + ".bias", .shape = {size}, .init = {Init::Kind::zeros, 0}};
}

PlacedParameters norm_vectors(const spec::Model& m, const std::string& name) {
  return {{{.name = name + ".weight", .shape = {m.hidden}, .init = {Init::Kind::ones, 0}}},
          {bias(name, m.hidden)}};
}

PlacedParameters block_vectors(const spec::Model& m, std::int64_t layer) {
  const std::string block = cat("transformer.h.", layer, ".");
  PlacedParameters out = norm_vectors(m, block + "ln_1");
  out.push_back(rows_cut(bias(block + "attn.q_proj", m.hidden)));
  for (const char* name : {"attn.k_proj", "attn.v_proj"})
    out.push_back(rows_cut(bias(block + name, m.hidden), TensorPlacement::with_keys));
  out.push_back({bias(block + "attn.out_proj", m.hidden)});
  for (PlacedParameter& parameter : norm_vectors(m, block + "ln_2")) out.push_back(std::move(parameter));
  out.push_back(rows_cut(bias(block + "mlp.up_proj", m.ffn)));
  out.push_back({bias(block + "mlp.down_proj", m.hidden)});
  return out;
}

}  // namespace

ModelPlan gpt2_plan(const spec::Model& m, const StepShape& shape) {
  const Sizes s(m, shape);
  const auto table = [&](const char* name, std::int64_t rows) {
    return Parameter{.name = name, .shape = {rows, m.hidden}, .init = normal(m.init_std)};
  };
  ModelPlan out;
  const char *rows = "transformer.wte.weight", *positions = "transformer.wpe.weight";
  out.embedding = {"embedding", {named(lookup(s, 2), {"tokens"}, {"hidden"}, {rows, positions})}};
  out.head = {"head",
              {named(norm(s, kLayerNorm), {"hidden"}, {"normed"},
                     {"transformer.ln_f.weight", "transformer.ln_f.bias"}),
               named(loss(s), {"normed", "targets"}, {}, {m.tied_embeddings ? rows : "lm_head.weight"})}};
  add_lookup_events(out.embedding, s, 2);
  add_head_events(out.head, s, true);
  out.embedding_parameters = {rows_cut(table(rows, m.vocab)), {table(positions, m.sequence)}};
  if (!m.tied_embeddings) out.head_parameters = {rows_cut(table("lm_head.weight", m.vocab))};
  out.head_reads_embedding = m.tied_embeddings;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    out.blocks.push_back(block_unit(s, layer));
    out.block_parameters.push_back(block_parameters(m, layer));
    out.block_vectors.push_back(block_vectors(m, layer));
  }
  out.head_vectors = norm_vectors(m, "transformer.ln_f");
  return out;
}

}  // namespace tessera::plan
