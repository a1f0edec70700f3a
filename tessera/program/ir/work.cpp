#include "tessera/program/ir/work.hpp"

namespace tessera::program {

namespace {

StepFlops flops_of(const Op& op, const Tables& tables) {
  double forward = 0, backward = 0, repeated = 0;
  const auto add_pieces = [&] {
    const Segment& segment = tables.segments[op.item];
    for (std::uint32_t i = 0; i < segment.num_pieces; ++i) {
      const Piece& piece = tables.units[segment.unit].pieces[segment.first_piece + i];
      forward += piece.flops;
      backward += piece.backward_flops;
      repeated += piece.repeated_flops;
    }
  };
  switch (op.what) {
    case OpKind::forward:
      add_pieces();
      return {forward - repeated, forward};
    case OpKind::recompute:
      add_pieces();
      return {0, forward};
    case OpKind::backward:
      add_pieces();
      return {backward - 2 * repeated, backward};
    case OpKind::backward_input:  // two halves that are whole together
    case OpKind::backward_weight:
      add_pieces();
      return {backward / 2 - repeated, backward / 2};
    case OpKind::gather:
    case OpKind::reduce:
    case OpKind::step:
    case OpKind::send:
    case OpKind::receive:
    case OpKind::exchange:
    case OpKind::sum:
    case OpKind::offload:
    case OpKind::fetch:
    case OpKind::turn:
    case OpKind::free:
      break;
  }
  return {};
}

}  // namespace

StepFlops step_flops(const Program& program) {
  std::vector<double> ranks(program.classes.size());
  for (const auto rank_class : program.tables.class_of_rank) ranks[rank_class] += 1;
  StepFlops total;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (const Op& op : program.classes[i].ops) {
      const StepFlops flops = flops_of(op, program.tables);
      total.model += ranks[i] * flops.model;
      total.hardware += ranks[i] * flops.hardware;
    }
  return total;
}

}  // namespace tessera::program
