#include "tessera/plan/model/pieces.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/plan/model/blocks.hpp"
#include "tessera/program/ir/context_parallel.hpp"

namespace tessera::plan {

using program::CollectiveKind;
using program::Dtype;
using program::Init;
using program::Piece;

namespace {
// Dropout reads and writes x once more.
void drop(Piece& piece, const Sizes& s) {
  if (!s.drops) return;
  piece.bytes_read += s.r * s.h * s.c;
  piece.bytes_written += s.r * s.h * s.c;
}
}  // namespace

InnerSets::InnerSets(const spec::Model& model, const spec::Layout& layout) {
  std::int16_t next = data;
  const bool has_part_losses = model.has_balance_loss() || model.router_z_weight > 0;
  const bool is_whole = !layout.in_blocks();
  if (layout.tp > 1 && (has_part_losses || layout.tp_samples() > 1)) numbers = ++next;
  if (layout.tp > 1 && is_whole) tp = ++next;
  const spec::TensorGrid grid = layout.grid();
  if (!is_whole && grid.rows > 1) tp_row = ++next;
  if (!is_whole && grid.columns > 1) tp_col = ++next;
  if (!is_whole && grid.layers > 1) tp_depth = ++next;
  if (layout.cp_ring() > 1) cp_ring = ++next;
  if (layout.cp_heads > 1) cp_heads = ++next;
  if (layout.tp_overlap) tp_exchanges = ++next;
  if (layout.ep * layout.etp > 1) experts = ++next;
  if (layout.ep_overlap) expert_exchanges = ++next;
  const bool counts_sequences = model.balance == spec::Balance::sequence || model.capacity_factor > 0;
  if (model.experts > 0 && counts_sequences && layout.cp * layout.tp > 1) same_samples = ++next;
  if (model.balance == spec::Balance::batch && layout.dp() * layout.cp * layout.tp > 1) batch = ++next;
}

Sizes::Sizes(const spec::Model& model, const StepShape& shape)
    : n(shape.layout.micro_batch / shape.layout.tp_samples() * model.sequence / shape.layout.cp),
      r(shape.layout.cuts_stream() ? n / shape.layout.tp : n),
      h(model.hidden / (shape.layout.in_blocks() ? shape.layout.tp_channels() : 1)),
      q(model.query_size() / shape.layout.tp_channels()),
      k(model.key_size() / spec::tp_kv(model, shape.layout)),
      f(model.ffn / shape.layout.tp_channels()),
      v(model.vocab / shape.layout.tp_channels()),
      c(bytes_of(compute_dtype(shape.layout.precision))),
      a(std::max<std::int64_t>(c, 4)),
      heads(model.heads / shape.layout.tp_channels()),
      kv_heads(model.kv_heads / spec::tp_kv(model, shape.layout)),
      sequence(model.sequence),
      tp(shape.layout.in_blocks() ? 1 : shape.layout.tp),
      cp_ring(shape.layout.cp_ring()),
      cp_heads(shape.layout.cp_heads),
      tp_rep(spec::tp_rep(model, shape.layout)),
      samples(shape.layout.micro_batch / shape.layout.tp_samples()),
      loss_chunk(shape.loss_chunk_tokens),
      has_documents(shape.has_documents),
      regathers(shape.layout.regathers()),
      drops(model.dropout > 0),
      compute(compute_dtype(shape.layout.precision)) {
  const InnerSets sets(model, shape.layout);
  over_tp = sets.tp;
  over_cp_ring = sets.cp_ring;
  over_cp_heads = sets.cp_heads;
  over_tp_exchanges = sets.tp_exchanges;
  over_experts = sets.experts;
  over_expert_exchanges = sets.expert_exchanges;
  over_same_samples = sets.same_samples;
  over_batch = sets.batch;
  blocks = {.in_blocks = shape.layout.in_blocks(),
            .is_cube = shape.layout.tp_kind == spec::TensorKind::d3,
            .gathers = shape.layout.tp_gather,
            .q = shape.layout.in_blocks() ? shape.layout.tp_channels() : 1,
            .over_rows = sets.tp_row,
            .over_columns = sets.tp_col,
            .over_layers = sets.tp_depth};
}

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

void add_costs(Piece& piece, const Piece& next) {
  piece.flops += next.flops;
  piece.backward_flops += next.backward_flops;
  piece.repeated_flops += next.repeated_flops;
  piece.bytes_read += next.bytes_read;
  piece.bytes_written += next.bytes_written;
  piece.tape_bytes += next.tape_bytes;
  piece.work_bytes += next.work_bytes;
  piece.scratch_bytes = std::max(piece.scratch_bytes, next.scratch_bytes);
  piece.backward_scratch_bytes = std::max(piece.backward_scratch_bytes, next.backward_scratch_bytes);
}

double product_flops(std::int64_t n, std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(out);
}

void enter_stream(Piece& piece, const Sizes& s) {
  if (s.tp == 1) return;
  const std::int64_t bytes = s.n * s.h * s.c;
  if (s.r == s.n) {
    piece.backward_collectives.push_back({CollectiveKind::all_reduce, s.over_tp, bytes});
    return;
  }
  piece.collectives.push_back({CollectiveKind::all_gather, s.over_tp, bytes});
  piece.backward_collectives.push_back({CollectiveKind::reduce_scatter, s.over_tp, bytes});
}

void enter_product(Piece& piece, const Sizes& s) {
  if (!s.regathers) return enter_stream(piece, s);
  // The backward gathers again, so the forward needs what is gathered for its product alone.
  piece.backward_collectives.push_back({CollectiveKind::all_gather, s.over_tp, s.n * s.h * s.c});
  piece.result_work.push_back({.first_call = static_cast<std::uint32_t>(piece.collectives.size()),
                               .num_calls = 1,
                               .flops = piece.flops,
                               .bytes = (s.n * s.h + s.h * piece.channels + s.n * piece.channels) * s.c});
  enter_stream(piece, s);
}

void leave_stream(Piece& piece, const Sizes& s) {
  piece.token_parts = s.n / s.r;
  if (s.tp == 1) return;
  const std::int64_t bytes = s.n * s.h * s.c;
  piece.result_work.push_back(
      {.first_call = static_cast<std::uint32_t>(piece.collectives.size()), .num_calls = 1});
  if (s.r == s.n) {
    piece.collectives.push_back({CollectiveKind::all_reduce, s.over_tp, bytes});
    return;
  }
  piece.collectives.push_back({CollectiveKind::reduce_scatter, s.over_tp, bytes});
  piece.backward_collectives.push_back({CollectiveKind::all_gather, s.over_tp, bytes});
}

void exchange_context(Piece& piece, const Sizes& s) {
  const program::AttentionSizes attention{.samples = s.samples,
                                          .query_heads = s.heads,
                                          .kv_heads = s.kv_heads,
                                          .positions = s.n / s.samples,
                                          .head_dim = s.q / s.heads,
                                          .compute = s.compute};
  const auto calls = program::context_calls(attention, {s.cp_ring, s.cp_heads});
  const auto list = [&](const std::vector<program::ContextCall>& from, std::vector<program::Collective>& to) {
    for (const auto& [kind, axis, bytes] : from)
      to.push_back({kind, axis == program::ContextAxis::ring ? s.over_cp_ring : s.over_cp_heads, bytes});
  };
  list(calls.forward, piece.collectives);
  list(calls.backward, piece.backward_collectives);
  // The tape holds the heads of the rank as they are before the last exchange.
  if (s.cp_heads > 1)
    piece.result_work.push_back(
        {.first_call = static_cast<std::uint32_t>(piece.collectives.size() - 1), .num_calls = 1});
}

Piece lookup(const Sizes& s, std::int64_t tables) {
  constexpr std::int64_t kTokenBytes = 8;
  // Rows of every table are written, then added up: those of the first for all tokens, of the others for the
  // stream's.
  const std::int64_t more = tables - 1;
  Piece piece{.name = "lookup",
              .bytes_read = (s.n + 3 * more * s.r) * s.h * s.c + (s.n + more * s.r) * kTokenBytes,
              .bytes_written = (s.n + 2 * more * s.r) * s.h * s.c,
              .channels = s.h};
  leave_stream(piece, s);
  add_block_lookup(piece, s);
  drop(piece, s);
  return piece;
}

Piece norm_and_product(const char* name, const Sizes& s, const NormSizes& norm, std::int64_t out,
                       std::int64_t biases) {
  Piece piece{.name = name,
              .flops = product_flops(s.n, s.h, out),
              .bytes_read = ((s.r + s.n) * s.h + norm.vectors * s.h + s.h * out + biases * out) * s.c,
              .bytes_written = (s.r * s.h + s.n * out) * s.c,
              .channels = out};
  enter_product(piece, s);
  Piece of_norm;
  add_block_norm(of_norm, s, norm);
  piece.collectives.insert(piece.collectives.end(), of_norm.collectives.begin(), of_norm.collectives.end());
  add_block_product(piece, s, s.h, out, Toward::branch);
  piece.backward_collectives.insert(piece.backward_collectives.end(), of_norm.backward_collectives.begin(),
                                    of_norm.backward_collectives.end());
  return piece;
}

Piece product_and_residual(const char* name, const Sizes& s, std::int64_t in, std::int64_t biases) {
  Piece piece{.name = name,
              .flops = product_flops(s.n, in, s.h),
              .bytes_read = (s.n * in + in * s.h + biases * s.h + 2 * s.r * s.h) * s.c,
              .bytes_written = (s.n + s.r) * s.h * s.c,
              .channels = s.h};
  leave_stream(piece, s);
  add_block_product(piece, s, in, s.h, Toward::stream);
  drop(piece, s);
  return piece;
}

Piece norm(const Sizes& s, const NormSizes& norm) {
  Piece piece{.name = "norm",
              .bytes_read = (s.r * s.h + norm.vectors * s.h) * s.c,
              .bytes_written = s.r * s.h * s.c,
              .channels = s.h,
              .token_parts = s.n / s.r};
  add_block_norm(piece, s, norm);
  return piece;
}

// Logits, dx and dW are multiplied out chunk by chunk in the forward, dx and dW are kept, and the backward
// only scales them.
Piece loss(const Sizes& s) {
  const std::int64_t chunks = (s.n + s.loss_chunk - 1) / s.loss_chunk;
  const std::int64_t narrow = s.c < s.a ? s.c : 0;  // bytes of what exists only if logits must be widened
  const std::int64_t logits = s.n * s.v, weight = s.v * s.h, x = s.n * s.h;
  // Log-softmax, exp and mask go over wide logits, which are widened before and narrowed after.
  const std::int64_t passes = 3 * logits * s.a + (narrow ? logits * (s.c + s.a) : 0);
  const std::int64_t dw = chunks * weight * (s.a + narrow);
  Piece piece{.name = "loss",
              .flops = 3 * product_flops(s.n, s.h, s.v),
              .backward_flops = 0,
              .bytes_read = (3 * x + 2 * chunks * weight + 2 * logits) * s.c + passes + dw,
              .bytes_written = (logits + 2 * x) * s.c + passes + dw,
              .losses = {{"loss"}}};
  enter_stream(piece, s);
  // Of each chunk every rank learns the others' largest logits, sums and targets' logits.
  for (std::int64_t first = 0; s.tp > 1 && first < s.n; first += s.loss_chunk)
    piece.collectives.push_back(
        {CollectiveKind::all_gather, s.over_tp, 3 * s.tp * std::min(s.loss_chunk, s.n - first) * s.a});
  add_block_loss(piece, s);
  return piece;
}

Piece named(Piece piece, std::vector<std::string> reads, std::vector<std::string> writes,
            std::vector<std::string> parameters) {
  piece.reads = std::move(reads);
  piece.writes = std::move(writes);
  piece.parameters = std::move(parameters);
  if (piece.backward_flops == 0) piece.forward_only = piece.parameters;
  return piece;
}

program::Step step(std::string name, std::vector<std::string> reads, std::vector<std::string> writes,
                   std::vector<std::string> parameters) {
  return {std::move(name), std::move(reads), std::move(writes), std::move(parameters)};
}

program::Step linear_step(std::string name, std::vector<std::string> reads, std::vector<std::string> writes,
                          std::vector<std::string> parameters) {
  program::Step out = step(std::move(name), std::move(reads), std::move(writes), std::move(parameters));
  out.is_linear = true;
  return out;
}

program::Step enter(const std::string& value) {
  return {"enter", {value}, {value}, {}, program::Step::Kind::enter};
}

program::Step leave(const std::string& value) {
  return {"leave", {value}, {value}, {}, program::Step::Kind::leave};
}

std::vector<std::string> values_read(std::span<const program::Step> steps) {
  std::vector<std::string> out, written;
  for (const program::Step& step : steps) {
    for (const std::string& name : step.reads)
      if (std::ranges::count(written, name) == 0 && std::ranges::count(out, name) == 0) out.push_back(name);
    written.insert(written.end(), step.writes.begin(), step.writes.end());
  }
  return out;
}

namespace {
// The step whose result a piece's calls and products serve: the sum on the stream if there is one, else the
// last that is not linear.
std::int16_t result_step(const std::vector<program::Step>& steps) {
  using Kind = program::Step::Kind;
  const auto leaving = std::ranges::find(steps, Kind::leave, &program::Step::kind);
  if (leaving != steps.end()) return static_cast<std::int16_t>(leaving - steps.begin());
  for (std::size_t i = steps.size(); i-- > 0;)
    if (steps[i].kind == Kind::work && !steps[i].is_linear) return static_cast<std::int16_t>(i);
  return -1;
}
}  // namespace

Piece made_of(Piece piece, std::vector<program::Step> steps) {
  if (piece.steps.empty())
    for (program::ResultWork& work : piece.result_work) work.step = result_step(steps);
  piece.reads = values_read(steps);
  piece.writes = steps.back().writes;
  for (const program::Step& step : steps)
    piece.parameters.insert(piece.parameters.end(), step.parameters.begin(), step.parameters.end());
  piece.steps = std::move(steps);
  return piece;
}

Init normal(double std) { return {Init::Kind::normal, std}; }

Init residual_normal(const spec::Model& model) {
  return normal(model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers)));
}

}  // namespace tessera::plan
