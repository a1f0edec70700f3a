#include "tessera/plan/pieces.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::plan {

using program::Dtype;
using program::Init;
using program::Piece;

namespace {
// Dropout reads and writes x once more.
void drop(Piece& piece, const Sizes& s) {
  if (!s.drops) return;
  piece.bytes_read += s.n * s.h * s.c;
  piece.bytes_written += s.n * s.h * s.c;
}
}  // namespace

Sizes::Sizes(const spec::Run& run)
    : n(run.layout.micro_batch * run.model.sequence),
      h(run.model.hidden),
      q(run.model.query_size()),
      k(run.model.key_size()),
      f(run.model.ffn),
      v(run.model.vocab),
      c(bytes_of(compute_dtype(run.layout.precision))),
      a(std::max<std::int64_t>(c, 4)),
      heads(run.model.heads),
      kv_heads(run.model.kv_heads),
      sequence(run.model.sequence),
      drops(run.model.dropout > 0) {}

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

double product_flops(std::int64_t n, std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(out);
}

Piece lookup(const Sizes& s, std::int64_t tables) {
  constexpr std::int64_t kTokenBytes = 8;
  // Rows of every table are written, then added up.
  const std::int64_t sums = tables - 1;
  Piece piece{.name = "lookup",
              .bytes_read = (tables + 2 * sums) * s.n * s.h * s.c + tables * s.n * kTokenBytes,
              .bytes_written = (tables + sums) * s.n * s.h * s.c,
              .channels = s.h};
  drop(piece, s);
  return piece;
}

Piece norm_and_product(const char* name, const Sizes& s, const NormSizes& norm, std::int64_t out,
                       std::int64_t biases) {
  return {.name = name,
          .flops = product_flops(s.n, s.h, out),
          .bytes_read = (2 * s.n * s.h + norm.vectors * s.h + s.h * out + biases * out) * s.c,
          .bytes_written = (s.n * s.h + s.n * out) * s.c,
          .channels = out};
}

Piece product_and_residual(const char* name, const Sizes& s, std::int64_t in, std::int64_t biases) {
  Piece piece{.name = name,
              .flops = product_flops(s.n, in, s.h),
              .bytes_read = (s.n * in + in * s.h + biases * s.h + 2 * s.n * s.h) * s.c,
              .bytes_written = 2 * s.n * s.h * s.c,
              .channels = s.h};
  drop(piece, s);
  return piece;
}

Piece norm(const Sizes& s, const NormSizes& norm) {
  return {.name = "norm",
          .bytes_read = (s.n * s.h + norm.vectors * s.h) * s.c,
          .bytes_written = s.n * s.h * s.c,
          .channels = s.h};
}

// Logits, dx and dW are multiplied out chunk by chunk in the forward, dx and dW are kept, and the backward only scales
// them.
Piece loss(const Sizes& s) {
  const std::int64_t chunks = (s.n + program::kLossChunkTokens - 1) / program::kLossChunkTokens;
  const std::int64_t narrow = s.c < s.a ? s.c : 0;  // bytes of what exists only if logits must be widened
  const std::int64_t logits = s.n * s.v, weight = s.v * s.h, x = s.n * s.h;
  // Log-softmax, exp and mask go over wide logits, which are widened before and narrowed after.
  const std::int64_t passes = 3 * logits * s.a + (narrow ? logits * (s.c + s.a) : 0);
  const std::int64_t dw = chunks * weight * (s.a + narrow);
  return {.name = "loss",
          .flops = 3 * product_flops(s.n, s.h, s.v),
          .backward_flops = 0,
          .bytes_read = (3 * x + 2 * chunks * weight + 2 * logits) * s.c + passes + dw,
          .bytes_written = (logits + 2 * x) * s.c + passes + dw};
}

Piece named(Piece piece, std::vector<std::string> reads, std::vector<std::string> writes,
            std::vector<std::string> parameters) {
  piece.reads = std::move(reads);
  piece.writes = std::move(writes);
  piece.parameters = std::move(parameters);
  return piece;
}

Init normal(double std) { return {Init::Kind::normal, std}; }

Init residual_normal(const spec::Model& model) {
  return normal(model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers)));
}

}  // namespace tessera::plan
