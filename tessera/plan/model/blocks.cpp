#include "tessera/plan/model/blocks.hpp"

#include <algorithm>

namespace tessera::plan {
namespace {

using program::Collective;
using program::CollectiveKind;
using program::Piece;

// Axis sets of parallel::ProductAxes.
struct Over {
  std::int16_t inputs, weights, sums;
};
Over over(const Sizes& s, Toward toward) {
  const BlockSizes& b = s.blocks;
  if (!b.is_cube) return {b.over_columns, b.over_rows, -1};
  if (toward == Toward::branch) return {b.over_rows, b.over_layers, b.over_columns};
  return {b.over_columns, b.over_layers, b.over_rows};
}

// A product of x [n, in] with W [out, in], whose blocks are of these bytes.
void add_square_product(Piece& piece, const Sizes& s, const Over& over, std::int64_t x, std::int64_t w,
                        std::int64_t dw) {
  const std::int64_t q = s.blocks.q;
  auto &forward = piece.collectives, &backward = piece.backward_collectives;
  if (s.blocks.gathers) {
    const Collective inputs{CollectiveKind::all_gather, over.inputs, q * x},
        weights{CollectiveKind::all_gather, over.weights, q * w};
    forward.insert(forward.end(), {inputs, weights});
    backward.insert(backward.end(), {inputs,
                                     weights,
                                     {CollectiveKind::reduce_scatter, over.inputs, q * x},
                                     {CollectiveKind::reduce_scatter, over.weights, q * dw}});
    return;
  }
  const Collective inputs{CollectiveKind::shift, over.inputs, x},
      weights{CollectiveKind::shift, over.weights, w};
  for (std::int64_t step = 1; step < q; ++step) {
    forward.insert(forward.end(), {inputs, weights});
    backward.insert(backward.end(), {inputs, weights, inputs, {CollectiveKind::shift, over.weights, dw}});
  }
}

// x, y: of one rank; w and dw: of all that are gathered.
void add_cube_product(Piece& piece, const Sizes& s, const Over& over, std::int64_t x, std::int64_t y,
                      std::int64_t w, std::int64_t dw) {
  const std::int64_t q = s.blocks.q;
  auto &forward = piece.collectives, &backward = piece.backward_collectives;
  const Collective inputs{CollectiveKind::all_gather, over.inputs, q * x},
      weights{CollectiveKind::all_gather, over.weights, w};
  forward.insert(forward.end(), {inputs, weights, {CollectiveKind::reduce_scatter, over.sums, q * y}});
  backward.insert(backward.end(), {{CollectiveKind::all_gather, over.sums, q * y},
                                   weights,
                                   {CollectiveKind::reduce_scatter, over.inputs, q * x},
                                   inputs,
                                   {CollectiveKind::reduce_scatter, over.weights, dw}});
}

}  // namespace

void add_block_product(Piece& piece, const Sizes& s, std::int64_t in, std::int64_t out, Toward toward) {
  if (!s.blocks.move()) return;
  const std::int64_t x = s.n * in * s.c, y = s.n * out * s.c, w = in * out * s.c, dw = in * out * s.a;
  const std::int64_t more = s.blocks.q - 1;  // blocks
  const std::size_t first = piece.collectives.size();
  piece.flops *= static_cast<double>(s.blocks.q);
  piece.backward_flops *= static_cast<double>(s.blocks.q);
  piece.bytes_read += more * (x + w + y);
  piece.bytes_written += more * y;
  piece.is_undivided = true;
  if (s.blocks.is_cube)
    add_cube_product(piece, s, over(s, toward), x, y, w, dw);
  else
    add_square_product(piece, s, over(s, toward), x, w, dw);
  // The tape holds the rank's own block of x alone, so all that travels serves the product.
  piece.result_work.push_back({.first_call = static_cast<std::uint32_t>(first),
                               .num_calls = static_cast<std::uint32_t>(piece.collectives.size() - first),
                               .flops = piece.flops,
                               .bytes = (more + 1) * (x + w + y) + more * y});
}

void add_block_norm(Piece& piece, const Sizes& s, const NormSizes& norm) {
  if (!s.blocks.move()) return;
  const std::int64_t bytes = norm.vectors * s.n * s.a;  // as many statistics as vectors
  piece.collectives.push_back({CollectiveKind::all_gather, s.blocks.over_columns, s.blocks.q * bytes});
  piece.backward_collectives.push_back({CollectiveKind::all_reduce, s.blocks.over_columns, bytes});
}

void add_block_lookup(Piece& piece, const Sizes& s) {
  if (!s.blocks.move()) return;
  const Over along = over(s, Toward::branch);
  const std::int64_t bytes = s.blocks.q * s.n * s.h * s.c;
  const std::int16_t vocabulary = branch_channels(s).over;
  const Collective exchange{CollectiveKind::all_to_all, along.weights, bytes};
  piece.collectives = {exchange, {CollectiveKind::reduce_scatter, vocabulary, bytes}};
  piece.backward_collectives = {{CollectiveKind::all_gather, vocabulary, bytes}, exchange};
}

void add_block_loss(Piece& piece, const Sizes& s) {
  if (!s.blocks.move()) return;
  const std::int64_t q = s.blocks.q;
  const bool is_cube = s.blocks.is_cube;
  piece.flops *= static_cast<double>(q);
  piece.bytes_read += 3 * (q - 1) * (s.n + s.v) * s.h * s.c;  // of three products
  const Over along = over(s, Toward::branch);
  const auto add = [&](CollectiveKind kind, std::int16_t set, std::int64_t bytes) {
    piece.collectives.push_back({kind, set, bytes});
  };
  const std::int64_t parts =
      is_cube ? 1 : q;  // of the table's columns that are gathered, to be those of v x h
  if (is_cube) add(CollectiveKind::all_gather, along.inputs, q * s.n * s.h * s.c);
  add(CollectiveKind::all_gather, along.weights, parts * s.v * s.h * s.c);
  const std::int64_t chunk = is_cube ? std::max<std::int64_t>(1, s.loss_chunk / q) : s.loss_chunk;
  for (std::int64_t first = 0; first < s.n; first += chunk) {
    const std::int64_t rows = std::min(chunk, s.n - first), x = q * rows * s.h * s.c,
                       logits = q * rows * s.v * s.c;
    if (is_cube)
      add(CollectiveKind::reduce_scatter, along.sums, logits);
    else
      add(CollectiveKind::all_gather, along.inputs, x);
    add(CollectiveKind::all_gather, branch_channels(s).over, 3 * q * rows * s.a);
    if (is_cube)
      add(CollectiveKind::all_gather, along.sums, logits);
    else
      add(CollectiveKind::reduce_scatter, along.inputs, x);
  }
  if (is_cube) add(CollectiveKind::reduce_scatter, along.inputs, q * s.n * s.h * s.c);
  add(CollectiveKind::reduce_scatter, along.weights, parts * s.v * s.h * s.a);
}

BranchChannels branch_channels(const Sizes& s) {
  if (!s.blocks.in_blocks) return {s.over_tp, s.tp};
  return {s.blocks.is_cube ? s.blocks.over_rows : s.blocks.over_columns, s.blocks.q};
}

}  // namespace tessera::plan
