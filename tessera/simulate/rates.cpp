#include "tessera/simulate/rates.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/program/ir/calls.hpp"
#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/work.hpp"

namespace tessera::simulate {
namespace {

using program::CellKind;
using program::CollectiveKind;
using program::Cost;
using program::kOfStep;
using program::Op;
using program::OpKind;
using program::Piece;
using program::StageCost;
using program::Tables;

StageCost piece_cost(const Piece& piece, const Rates& rates) {
  const double moves = static_cast<double>(piece.bytes_read + piece.bytes_written) / rates.memory_bytes;
  const double backward = piece.backward_flops / rates.flops;
  const bool has_weights = piece.work_bytes > 0 && !piece.is_undivided;
  return {.forward = piece.flops / rates.flops + moves,
          .input = (has_weights ? backward / 2 : backward) + moves,
          .weight = has_weights ? backward / 2 + moves : 0};
}

double seconds_of(const program::RecomputedPiece& piece, const Rates& rates) {
  return piece.flops / rates.flops + static_cast<double>(piece.bytes) / rates.memory_bytes;
}

class Pricing {
 public:
  Pricing(const Tables& tables, const Rates& rates) : tables_(tables), rates_(rates) {}

  Cost of(const Op& op) const {
    switch (op.what) {
      case OpKind::forward:
        return compute(op, [](const StageCost& piece) { return piece.forward; });
      case OpKind::recompute:
        return recompute(op);
      case OpKind::backward:
        return compute(op, [](const StageCost& piece) { return piece.input + piece.weight; });
      case OpKind::backward_input:
        return compute(op, [](const StageCost& piece) { return piece.input; });
      case OpKind::backward_weight:  // its products communicate with nobody
        return compute(op, [](const StageCost& piece) { return piece.weight; });
      case OpKind::gather:
        return gather(op);
      case OpKind::reduce:
        return reduce(op);
      case OpKind::step:
        return in_memory(bytes(CellKind::shard_grad, op.item) +
                         2 * (bytes(CellKind::shard, op.item) + bytes(CellKind::state, op.item)));
      case OpKind::send:
      case OpKind::receive:
        return ring(op.along, named_bytes(op), CollectiveKind::shift);
      case OpKind::exchange:
        return exchange(op);
      case OpKind::sum:
        return ring(op.along, sizeof(double), CollectiveKind::all_reduce);
      case OpKind::offload:
      case OpKind::fetch:
        return op.flags & program::kUnchanged ? Cost{} : to_host(named_bytes(op));
      case OpKind::turn:
      case OpKind::free:
        break;
    }
    return {};
  }

 private:
  double bytes(CellKind kind, std::uint32_t item) const {
    return static_cast<double>(program::bytes_of({kind, item, kOfStep}, tables_));
  }
  double named_bytes(const Op& op) const {
    return static_cast<double>(program::bytes_of(program::named_cell(op), tables_));
  }

  Cost in_memory(double moved) const {
    return {.phases = {{-1, moved / rates_.memory_bytes}}, .bytes = static_cast<std::int64_t>(moved)};
  }

  Cost to_host(double moved) const {
    return {.phases = {{-1, moved / rates_.host_bytes}}, .bytes = static_cast<std::int64_t>(moved)};
  }

  // A bucket that is whole already is only cast.
  // Each call by itself, and what packing and unpacking read and write.
  Cost packed(const Op& op) const {
    Cost out;
    for (const program::Collective& call : program::calls_of(op, tables_)) {
      out.phases.push_back({call.over, ring_seconds(call.over, static_cast<double>(call.bytes), call.kind)});
      out.bytes += call.bytes;
    }
    out.phases.push_back({-1, 2 * bytes(CellKind::full, op.item) / rates_.memory_bytes});
    return out;
  }

  Cost gather(const Op& op) const {
    if (tables_.buckets[op.item].gathered_as != program::Wire::exact && tables_.size_of(op.along) > 1)
      return packed(op);
    const double full = bytes(CellKind::full, op.item);
    if (op.flags & program::kSides) return served(op, full);
    if (tables_.size_of(op.along) > 1) return ring(op.along, full, CollectiveKind::all_gather);
    return in_memory(bytes(CellKind::shard, op.item) + full);
  }

  Cost reduce(const Op& op) const {
    if (tables_.buckets[op.item].reduced_as != program::Wire::exact && tables_.size_of(op.along) > 1)
      return packed(op);
    if (op.flags & program::kOfShard)
      return ring(op.along, bytes(CellKind::shard_grad, op.item), CollectiveKind::all_reduce);
    if (op.flags & program::kSides) return served(op, bytes(CellKind::weight_grad, op.item));
    const bool is_scattered = tables_.num_slices(tables_.buckets[op.item]) > 1;
    return ring(op.along, bytes(CellKind::weight_grad, op.item),
                is_scattered ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce);
  }

  // All that goes between workers and servers goes through the links of the fewer.
  Cost served(const Op& op, double whole) const {
    const program::Bucket& bucket = tables_.buckets[op.item];
    const auto workers = static_cast<double>(tables_.num_workers(bucket)),
               servers = static_cast<double>(tables_.num_slices(bucket));
    const Rates::Link link = rates_.link(op.along);
    const double seconds =
        std::max(1.0, workers / servers) * whole / link.bytes + std::max(workers, servers) * link.seconds;
    return {.phases = {{op.along, seconds}}, .bytes = static_cast<std::int64_t>(whole)};
  }

  Cost exchange(const Op& op) const {
    const program::Exchange& exchange = tables_.values[op.item].exchange;
    const auto& calls =
        program::named_cell(op).kind == CellKind::value ? exchange.forward : exchange.backward;
    return calls.empty() ? Cost{}
                         : ring(op.along, static_cast<double>(calls.front().bytes), calls.front().kind);
  }

  double ring_seconds(std::int16_t along, double whole, CollectiveKind kind) const {
    const auto n = static_cast<double>(tables_.size_of(along));
    if (n <= 1) return 0;
    const Rates::Link link = rates_.link(along);
    const double once = (n - 1) / n * whole / link.bytes + (n - 1) * link.seconds;
    switch (kind) {
      case CollectiveKind::all_reduce: {
        const double by_tree = 2 * whole / link.bytes + 2 * std::ceil(std::log2(n)) * link.seconds;
        return rates_.trees ? std::min(2 * once, by_tree) : 2 * once;
      }
      case CollectiveKind::all_gather:
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_to_all:
        return once;
      case CollectiveKind::shift:
      case CollectiveKind::broadcast:
        break;
    }
    return whole / link.bytes + link.seconds;
  }

  Cost ring(std::int16_t along, double whole, CollectiveKind kind) const {
    return {.phases = {{along, ring_seconds(along, whole, kind)}}, .bytes = static_cast<std::int64_t>(whole)};
  }

  template <typename Part>
  Cost compute(const Op& op, Part part) const {
    Cost out;
    for (const Piece& piece : pieces_of(op))
      add_phases(out, part(piece_cost(piece, rates_)), collectives_of(op.what, piece));
    return out;
  }

  Cost recompute(const Op& op) const {
    Cost out;
    for (const auto& piece : program::recomputed(pieces_of(op)))
      add_phases(out, seconds_of(piece, rates_), piece.collectives);
    return out;
  }

  std::span<const Piece> pieces_of(const Op& op) const {
    const program::Segment& segment = tables_.segments[op.item];
    return std::span(tables_.units[segment.unit].pieces).subspan(segment.first_piece, segment.num_pieces);
  }

  // Computes, then calls.
  void add_phases(Cost& cost, double seconds, std::span<const program::Collective> calls) const {
    if (cost.phases.empty() || cost.phases.back().axes >= 0) cost.phases.push_back({});
    cost.phases.back().seconds += seconds;
    for (const program::Collective& call : calls)
      cost.phases.push_back({call.over, ring_seconds(call.over, static_cast<double>(call.bytes), call.kind)});
  }

  // Weight halves are local.
  static std::span<const program::Collective> collectives_of(OpKind what, const Piece& piece) {
    if (what == OpKind::backward_weight) return {};
    return what == OpKind::forward ? piece.collectives : piece.backward_collectives;
  }

  const Tables& tables_;
  const Rates& rates_;
};

}  // namespace

Cost cost(const Op& op, const Tables& tables, const Rates& rates) { return Pricing(tables, rates).of(op); }

StageCost cost(const program::Unit& unit, const Rates& rates) {
  StageCost out{0, 0, 0};
  for (const Piece& piece : unit.pieces) {
    const StageCost part = piece_cost(piece, rates);
    out.forward += part.forward;
    out.input += part.input;
    out.weight += part.weight;
  }
  return out;
}

double recompute_seconds(std::span<const Piece> pieces, const Rates& rates) {
  double out = 0;
  for (const auto& piece : program::recomputed(pieces)) out += seconds_of(piece, rates);
  return out;
}

OpCosts costs_at(const Rates& rates, const program::Program& program) {
  return costs_by(program, [&](std::uint32_t, const Op& op) { return cost(op, program.tables, rates); });
}

double transfer_seconds(double bytes, const Rates& rates) {
  return bytes / rates.link_bytes + rates.link_seconds;
}

}  // namespace tessera::simulate
