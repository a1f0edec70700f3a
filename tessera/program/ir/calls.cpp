#include "tessera/program/ir/calls.hpp"

#include <algorithm>
#include <span>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/work.hpp"

namespace tessera::program {
namespace {

constexpr std::int64_t kScaleBytes = 4;

std::int64_t rounded_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

}  // namespace

std::int64_t packed_bytes(std::int64_t elements, Wire wire, std::int64_t block) {
  if (wire == Wire::bf16) return 2 * elements;
  return rounded_up(elements, block) / block * (block + kScaleBytes);
}

std::int64_t chunk_elements(std::int64_t elements, std::int64_t n, const Bucket& bucket) {
  return rounded_up((elements + n - 1) / n, bucket.block);
}

bool is_thin(const Parameter& parameter, std::int64_t rank) {
  if (parameter.shape.size() < 2) return false;
  const std::int64_t rows = parameter.shape.front(), columns = parameter.elements() / rows;
  return rank * (rows + columns) < rows * columns;
}

ThinElements thin_elements(const Bucket& bucket) {
  ThinElements out;
  for (const Parameter& parameter : bucket.parameters) {
    const std::int64_t rows = parameter.shape.front(), columns = parameter.elements() / rows;
    if (!is_thin(parameter, bucket.rank)) {
      out.first += parameter.elements();
      continue;
    }
    out.first += bucket.rank * rows;
    out.second += bucket.rank * columns;
  }
  return out;
}

namespace {

// See Note [Packed sums] and Note [Thin sums] in engine/.
std::vector<Collective> packed_reduction(const Op& op, const Bucket& bucket, const Tables& tables) {
  const std::int64_t n = tables.size_of(op.along), slices = tables.num_slices(bucket);
  if (bucket.reduced_as == Wire::thin) {
    const ThinElements elements = thin_elements(bucket);
    std::vector<Collective> out = {
        {CollectiveKind::all_reduce, op.along, elements.first * bytes_of(bucket.gradient)}};
    if (elements.second > 0)
      out.push_back({CollectiveKind::all_reduce, op.along, elements.second * bytes_of(bucket.gradient)});
    return out;
  }
  const auto packed = [&](std::int64_t elements) {
    return n * packed_bytes(elements, bucket.reduced_as, bucket.block);
  };
  const std::int64_t of_shard = bucket.elements / slices;
  if (!(op.flags & kOfShard) && slices > 1) return {{CollectiveKind::all_to_all, op.along, packed(of_shard)}};
  const std::int64_t bytes =
      packed(chunk_elements(op.flags & kOfShard ? of_shard : bucket.elements, n, bucket));
  return {{CollectiveKind::all_to_all, op.along, bytes}, {CollectiveKind::all_gather, op.along, bytes}};
}

Collective reduction(const Op& op, const Bucket& bucket, const Tables& tables) {
  const std::int64_t bytes = bucket.elements * bytes_of(bucket.gradient);
  const std::int64_t slices = tables.num_slices(bucket);
  if (op.flags & kOfShard) return {CollectiveKind::all_reduce, op.along, bytes / slices};
  if (op.flags & kSides) return {CollectiveKind::all_to_all, op.along, op.flags & kOfWorker ? bytes : 0};
  return {slices > 1 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, op.along, bytes};
}

Collective along_op(const Op& op, const Tables& tables) {
  switch (op.what) {
    case OpKind::gather: {
      const Bucket& bucket = tables.buckets[op.item];
      std::int64_t bytes = bucket.elements * bytes_of(bucket.compute);
      if (bucket.gathered_as != Wire::exact)
        bytes = tables.size_of(op.along) *
                packed_bytes(bucket.elements / tables.num_slices(bucket), bucket.gathered_as, bucket.block);
      if (op.flags & kOfWorker) return {CollectiveKind::all_to_all, op.along, 0};
      if (op.flags & kOfServer)
        return {CollectiveKind::all_to_all, op.along,
                bytes / tables.num_slices(bucket) * tables.num_workers(bucket)};
      return {CollectiveKind::all_gather, op.along, bytes};
    }
    case OpKind::reduce:
      return reduction(op, tables.buckets[op.item], tables);
    case OpKind::sum:
      return {CollectiveKind::all_reduce, op.along, bytes_of(Dtype::fp64)};
    case OpKind::exchange: {
      const Exchange& exchange = tables.values[op.item].exchange;
      return (named_cell(op).kind == CellKind::value ? exchange.forward : exchange.backward).at(0);
    }
    case OpKind::send:
      return {CollectiveKind::shift, op.along, tables.values[op.item].bytes};
    default:
      throw Bug("an op that goes along no axis set calls nothing");
  }
}

std::span<const Piece> pieces_of(const Op& op, const Tables& tables) {
  const Segment& segment = tables.segments[op.item];
  return std::span(tables.units[segment.unit].pieces).subspan(segment.first_piece, segment.num_pieces);
}

// A backward goes through the pieces in reverse; each lists its calls in their order.
std::vector<Collective> inside(const Op& op, const Tables& tables) {
  const auto pieces = pieces_of(op, tables);
  std::vector<Collective> out;
  const auto add = [&](const std::vector<Collective>& calls) {
    out.insert(out.end(), calls.begin(), calls.end());
  };
  switch (op.what) {
    case OpKind::forward:
      for (const Piece& piece : pieces) add(piece.collectives);
      break;
    case OpKind::recompute:
      for (const RecomputedPiece& piece : recomputed(pieces)) add(piece.collectives);
      break;
    case OpKind::backward:
    case OpKind::backward_input:
      for (std::size_t i = pieces.size(); i-- > 0;) add(pieces[i].backward_collectives);
      break;
    default:
      break;
  }
  return out;
}

}  // namespace

std::vector<Collective> calls_of(const Op& op, const Tables& tables) {
  if (is_compute(op.what)) return inside(op, tables);
  if (op.along < 0 || op.what == OpKind::receive || tables.size_of(op.along) == 1) return {};
  if (op.what == OpKind::reduce && tables.buckets[op.item].reduced_as != Wire::exact)
    return packed_reduction(op, tables.buckets[op.item], tables);
  return {along_op(op, tables)};
}

bool is_queued(const Op& op, const Tables& tables) {
  if (!is_compute(op.what)) return op.along >= 0 || op.lane.kind == LaneKind::communication;
  const auto pieces = pieces_of(op, tables);
  const bool omits =
      std::ranges::any_of(pieces, [](const Piece& piece) { return !piece.result_work.empty(); });
  if (op.what == OpKind::recompute && omits) return !inside(op, tables).empty();
  return std::ranges::any_of(pieces, [&](const Piece& piece) {
    switch (op.what) {
      case OpKind::forward:
      case OpKind::recompute:
        return !piece.collectives.empty();
      case OpKind::backward:
      case OpKind::backward_input:
        return !piece.backward_collectives.empty();
      default:
        return false;
    }
  });
}

}  // namespace tessera::program
