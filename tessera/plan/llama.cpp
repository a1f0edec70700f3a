#include "tessera/plan/llama.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/text.hpp"

namespace tessera::plan {
namespace {

using program::Dtype;
using program::Init;
using program::Parameter;
using program::Piece;

// Sizes of one micro-batch: n tokens, h hidden, k key (and value) width, f feed-forward, v vocabulary, c bytes per
// element computed with, a bytes per element of statistics and of the loss.
struct Sizes {
  std::int64_t n, h, k, f, v, c, a, heads, sequence;
  explicit Sizes(const spec::Run& run)
      : n(run.layout.micro_batch * run.model.sequence),
        h(run.model.hidden),
        k(run.model.kv_heads * run.model.head_dim()),
        f(run.model.ffn),
        v(run.model.vocab),
        c(bytes_of(compute_dtype(run.layout.precision))),
        a(std::max<std::int64_t>(c, 4)),
        heads(run.model.heads),
        sequence(run.model.sequence) {}
};

double product_flops(std::int64_t n, std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(out);
}

// x -> rms_norm(x) W: the normalised x is written, read again, and kept with the row statistics.
Piece norm_and_product(const char* name, const Sizes& s, std::int64_t out) {
  return {.name = name,
          .flops = product_flops(s.n, s.h, out),
          .bytes_read = (2 * s.n * s.h + s.h + s.h * out) * s.c,
          .bytes_written = (s.n * s.h + s.n * out) * s.c,
          .tape_bytes = s.n * s.h * s.c + s.n * s.a,
          .work_bytes = (s.n * s.h + s.n * out) * s.c};
}

// residual + x W. The sum is kept only if a norm of the same segment reads it.
Piece product_and_residual(const char* name, const Sizes& s, std::int64_t in, bool keeps_sum) {
  return {.name = name,
          .flops = product_flops(s.n, in, s.h),
          .bytes_read = (s.n * in + in * s.h + 2 * s.n * s.h) * s.c,
          .bytes_written = 2 * s.n * s.h * s.c,
          .tape_bytes = keeps_sum ? s.n * s.h * s.c : 0,
          .work_bytes = (s.n * in + s.n * s.h) * s.c};
}

// The vocabulary loss, as Note [Loss gradient in the forward] has it: logits, dx and dW are multiplied out chunk by
// chunk in the forward, dx and dW are kept, and the backward only scales them.
Piece loss(const Sizes& s) {
  const std::int64_t rows = std::min(s.n, program::kLossChunkTokens),
                     chunks = (s.n + program::kLossChunkTokens - 1) / program::kLossChunkTokens;
  const std::int64_t narrow = s.c < s.a ? s.c : 0;  // bytes of what exists only if logits must be widened
  const std::int64_t logits = s.n * s.v, weight = s.v * s.h, x = s.n * s.h;
  // Log-softmax, exp and mask go over wide logits, which are widened before and narrowed after.
  const std::int64_t passes = 3 * logits * s.a + (narrow ? logits * (s.c + s.a) : 0);
  const std::int64_t dw = chunks * weight * (s.a + narrow);
  const std::int64_t softmax_scratch = rows * s.v * (2 * s.a + narrow);
  const std::int64_t product_scratch =
      rows * s.v * (s.a + narrow) + std::max(rows * s.h * s.c, weight * narrow);
  return {.name = "loss",
          .flops = 3 * product_flops(s.n, s.h, s.v),
          .backward_flops = 0,
          .bytes_read = (3 * x + 2 * chunks * weight + 2 * logits) * s.c + passes + dw,
          .bytes_written = (logits + 2 * x) * s.c + passes + dw,
          .tape_bytes = x * s.c + weight * s.a,
          .work_bytes = weight * s.a,
          .scratch_bytes = std::max(softmax_scratch, product_scratch)};
}

Piece named(Piece piece, std::vector<std::string> reads, std::vector<std::string> writes) {
  piece.reads = std::move(reads);
  piece.writes = std::move(writes);
  return piece;
}

Init normal(double std) { return {Init::Kind::normal, std}; }

}  // namespace

Dtype storage_dtype(spec::Precision precision) {
  return precision == spec::Precision::fp64 ? Dtype::fp64 : Dtype::fp32;
}

Dtype compute_dtype(spec::Precision precision) {
  switch (precision) {
    case spec::Precision::fp32:
      return Dtype::fp32;
    case spec::Precision::fp64:
      return Dtype::fp64;
    case spec::Precision::bf16:
      return Dtype::bf16;
    case spec::Precision::fp16:
      break;
  }
  return Dtype::fp16;
}

program::Unit embedding_unit(const spec::Run& run) {
  const Sizes s(run);
  constexpr std::int64_t kTokenBytes = 8;
  Piece lookup{.name = "lookup",
               .bytes_read = s.n * s.h * s.c + s.n * kTokenBytes,
               .bytes_written = s.n * s.h * s.c,
               .work_bytes = s.n * s.h * s.c};
  return {"embedding", {named(lookup, {"tokens"}, {"hidden"})}};
}

program::Unit block_unit(const spec::Run& run, std::int64_t layer) {
  const Sizes s(run);
  // Rotary positions read and write q and k; the kernel keeps q, k, v, its output and the row sums.
  const Piece attention{
      .name = "attention",
      .flops = 4.0 * static_cast<double>(s.n) * static_cast<double>(s.sequence) * static_cast<double>(s.h),
      .bytes_read = (s.n * (s.h + s.k) + s.n * (s.h + 2 * s.k)) * s.c,
      .bytes_written = (s.n * (s.h + s.k) + s.n * s.h) * s.c + s.n * s.heads * s.a,
      .tape_bytes = s.n * (2 * s.h + 2 * s.k) * s.c + s.n * s.heads * s.a};
  Piece up = norm_and_product("norm+up", s, 2 * s.f);
  up.tape_bytes += 2 * s.n * s.f * s.c;  // the gate's derivative needs both halves
  // silu(gate) is written, read again, and kept beside the product that `down` reads.
  const Piece gate{.name = "gate",
                   .bytes_read = 3 * s.n * s.f * s.c,
                   .bytes_written = 2 * s.n * s.f * s.c,
                   .tape_bytes = 2 * s.n * s.f * s.c};
  return {cat("block.", layer),
          {named(norm_and_product("norm+qkv", s, s.h + 2 * s.k), {"hidden"}, {"qkv"}),
           named(attention, {"qkv"}, {"attended"}),
           named(product_and_residual("out", s, s.h, true), {"attended", "hidden"}, {"middle"}),
           named(up, {"middle"}, {"gate_up"}), named(gate, {"gate_up"}, {"gated"}),
           named(product_and_residual("down", s, s.f, false), {"gated", "middle"}, {"hidden"})}};
}

program::Unit head_unit(const spec::Run& run) {
  const Sizes s(run);
  const Piece norm{.name = "norm",
                   .bytes_read = (s.n * s.h + s.h) * s.c,
                   .bytes_written = s.n * s.h * s.c,
                   .tape_bytes = s.n * s.a};
  return {"head", {named(norm, {"hidden"}, {"normed"}), named(loss(s), {"normed", "targets"}, {"loss"})}};
}

std::vector<Parameter> embedding_parameters(const spec::Model& m) {
  return {{.name = "model.embed_tokens.weight", .shape = {m.vocab, m.hidden}, .init = normal(m.init_std)}};
}

std::vector<Parameter> block_parameters(const spec::Model& m, std::int64_t layer) {
  const std::int64_t kv = m.kv_heads * m.head_dim();
  // What adds to the residual stream starts smaller, so that the stream's variance does not grow with depth.
  const Init init = normal(m.init_std);
  const Init residual = normal(m.init_std / std::sqrt(2.0 * static_cast<double>(m.layers)));
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

std::vector<Parameter> head_parameters(const spec::Model& m) {
  return {{.name = "lm_head.weight", .shape = {m.vocab, m.hidden}, .init = normal(m.init_std)}};
}

std::vector<Parameter> norm_parameters(const spec::Model& m) {
  std::vector<Parameter> out;
  const auto add = [&](const std::string& name) {
    out.push_back({.name = name, .shape = {m.hidden}, .init = {Init::Kind::ones, 0}});
  };
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    add(cat("model.layers.", layer, ".input_layernorm.weight"));
    add(cat("model.layers.", layer, ".post_attention_layernorm.weight"));
  }
  add("model.norm.weight");
  return out;
}

}  // namespace tessera::plan
