#include "tessera/plan/model/decoder.hpp"

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/plan/model/ahead.hpp"
#include "tessera/plan/model/blocks.hpp"
#include "tessera/plan/model/experts.hpp"
#include "tessera/plan/model/unit_allocation_events.hpp"

namespace tessera::plan {

using program::Init;
using program::Parameter;
using program::Piece;

namespace {
// Pairs of a query and a key of one sample that are computed, triangles counted whole: within a window w the
// positions are cut into tiles of w, and each is computed with itself and with the one before.
double computed_pairs(std::int64_t sequence, std::int64_t window) {
  if (window == 0) return static_cast<double>(sequence) * static_cast<double>(sequence);
  double out = 0;
  for (std::int64_t begin = 0; begin < sequence; begin += window) {
    const std::int64_t size = std::min(window, sequence - begin);
    const std::int64_t before = begin == 0 ? 0 : size * (window - size) + (size - 1) * (size - 1);
    out += static_cast<double>(size * size + before);
  }
  return out;
}
}  // namespace

Piece rotary_attention(const Sizes& s, bool has_norm, std::int64_t window) {
  // Rotary positions read and write q and k.
  Piece piece{.name = "attention",
              .flops = 4.0 * static_cast<double>(s.n) * static_cast<double>(s.q) *
                       computed_pairs(s.sequence, window) / static_cast<double>(s.sequence),
              .bytes_read = (s.n * (s.q + s.k) + s.n * (s.q + 2 * s.k)) * s.c,
              .bytes_written = (s.n * (s.q + s.k) + s.n * s.q) * s.c + s.n * s.heads * s.a,
              .channels = s.q};
  if (has_norm) {  // squares, and q and k scaled, are written and read again
    piece.bytes_read += 3 * s.n * (s.q + s.k) * s.a;
    piece.bytes_written += 2 * s.n * (s.q + s.k) * s.a;
  }
  exchange_context(piece, s);
  return piece;
}

Piece entering_product(const char* name, const Sizes& s, std::int64_t out) {
  Piece piece{.name = name,
              .flops = product_flops(s.n, s.h, out),
              .bytes_read = (s.n * s.h + s.h * out) * s.c,
              .bytes_written = s.n * out * s.c,
              .channels = out};
  enter_product(piece, s);
  add_block_product(piece, s, s.h, out, Toward::branch);
  return piece;
}

Piece gate(const Sizes& s) {
  // silu(gate) is written and read again.
  return {.name = "gate",
          .bytes_read = 3 * s.n * s.f * s.c,
          .bytes_written = 2 * s.n * s.f * s.c,
          .channels = s.f};
}

std::vector<Piece> feed_forward_pieces(const spec::Model& model, const StepShape& shape, std::int64_t layer) {
  if (model.has_experts(layer)) return expert_pieces(model, shape, layer);
  const Sizes s(model, shape);
  const auto names = [&](std::vector<std::string> list) { return in_layer(layer, std::move(list)); };
  Piece up = norm_and_product("norm+up", s, kRmsNorm, 2 * s.f, 0), opened = gate(s),
        down = product_and_residual("down", s, s.f, 0);
  add_feed_forward_events(up, opened, down, s, {.is_gated = true});
  return {made_of(up, {step("norm_2", {"middle"}, {"entering_2"}, names({"post_attention_layernorm.weight"})),
                       enter("entering_2"),
                       step("up", {"entering_2"}, {"gate_up"},
                            names({"mlp.gate_proj.weight", "mlp.up_proj.weight"}))}),
          made_of(opened, {step("gate", {"gate_up"}, {"gated"})}),
          made_of(down, {step("down", {"gated"}, {"fed_sums"}, names({"mlp.down_proj.weight"})),
                         leave("fed_sums"), linear_step("add_2", {"fed_sums", "middle"}, {"hidden"})})};
}

// One rank of those with the same keys and values would be enough.
double repeated_key_flops(const Sizes& s) {
  return product_flops(s.n, s.h, 2 * s.k) * (1 - 1.0 / static_cast<double>(s.tp_rep));
}

std::vector<std::string> in_layer(std::int64_t layer, std::vector<std::string> names) {
  for (std::string& name : names) name = cat("model.layers.", layer, ".", name);
  return names;
}

Parameter norm_weight(const std::string& name, std::int64_t size) {
  return {.name = name + ".weight", .shape = {size}, .init = {Init::Kind::ones, 0}};
}

namespace {
Parameter matrix(std::int64_t layer, const char* name, std::int64_t out, std::int64_t in, const Init& how) {
  return {.name = cat("model.layers.", layer, ".", name, "_proj.weight"), .shape = {out, in}, .init = how};
}
}  // namespace

PlacedParameters attention_matrices(const spec::Model& m, std::int64_t layer) {
  const std::int64_t q = m.query_size(), kv = m.key_size();
  const Init init = normal(m.init_std);
  return {rows_cut(matrix(layer, "self_attn.q", q, m.hidden, init)),
          rows_cut(matrix(layer, "self_attn.k", kv, m.hidden, init), TensorPlacement::with_keys),
          rows_cut(matrix(layer, "self_attn.v", kv, m.hidden, init), TensorPlacement::with_keys),
          columns_cut(matrix(layer, "self_attn.o", m.hidden, q, residual_normal(m)))};
}

namespace {
PlacedParameters feed_forward_matrices(const spec::Model& m, std::int64_t layer) {
  if (m.has_experts(layer)) return expert_parameters(m, layer);
  const Init init = normal(m.init_std);
  return {rows_cut(matrix(layer, "mlp.gate", m.ffn, m.hidden, init)),
          rows_cut(matrix(layer, "mlp.up", m.ffn, m.hidden, init)),
          columns_cut(matrix(layer, "mlp.down", m.hidden, m.ffn, residual_normal(m)))};
}

void append(PlacedParameters& parameters, PlacedParameters more) {
  for (PlacedParameter& parameter : more) parameters.push_back(std::move(parameter));
}

// Embedding and head with their parameters and allocation events.
ModelPlan decoder_ends(const spec::Model& m, const Sizes& s) {
  const auto table = [&](const char* name) {
    return PlacedParameters{
        rows_cut({.name = name, .shape = {m.vocab, m.hidden}, .init = normal(m.init_std)})};
  };
  ModelPlan out;
  const char* rows = "model.embed_tokens.weight";
  out.embedding = {"embedding", {named(lookup(s, 1), {"tokens"}, {"hidden"}, {rows})}};
  out.head = {"head",
              {named(norm(s, kRmsNorm), {"hidden"}, {"normed"}, {"model.norm.weight"}),
               named(loss(s), {"normed", "targets"}, {}, {m.tied_embeddings ? rows : "lm_head.weight"})}};
  add_lookup_events(out.embedding, s, 1);
  add_head_events(out.head, s, false);
  out.embedding_parameters = table(rows);
  if (!m.tied_embeddings) out.head_parameters = table("lm_head.weight");
  out.head_reads_embedding = m.tied_embeddings;
  out.head_vectors = {{norm_weight("model.norm", m.hidden)}};
  return out;
}

}  // namespace

ModelPlan decoder_plan(const spec::Model& m, const StepShape& shape, const DecoderParts& parts) {
  const Sizes s(m, shape);
  ModelPlan out = decoder_ends(m, s);
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    out.blocks.push_back(parts.block(s, m, shape, layer));
    append(out.block_parameters.emplace_back(parts.attention(m, layer)), feed_forward_matrices(m, layer));
    append(out.block_vectors.emplace_back(parts.vectors(m, layer)), expert_vectors(m, layer));
  }
  if (m.mtp_layers == 0) return out;
  add_ahead(out, m, s, parts.block(s, m, shape, m.layers));
  append(out.head_parameters, parts.attention(m, m.layers));
  append(out.head_parameters, feed_forward_matrices(m, m.layers));
  append(out.head_vectors, parts.vectors(m, m.layers));
  append(out.head_vectors, expert_vectors(m, m.layers));
  return out;
}

}  // namespace tessera::plan
