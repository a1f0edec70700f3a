#include "tessera/program/ir/work.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "tessera/base/error.hpp"

namespace tessera::program {

namespace {

bool is_linear(const Step& step) { return step.kind != Step::Kind::work || step.is_linear; }

RecomputedPiece without(const Piece& piece, std::span<const ResultWork* const> omitted) {
  RecomputedPiece out{{}, piece.flops, piece.bytes_read + piece.bytes_written};
  std::vector<bool> is_called(piece.collectives.size(), true);
  for (const ResultWork* work : omitted) {
    TESSERA_CHECK(work->first_call + work->num_calls <= is_called.size(), "piece ", piece.name, " has ",
                  is_called.size(), " calls, and a result of its needs more");
    std::fill_n(is_called.begin() + work->first_call, work->num_calls, false);
    out.flops -= work->flops;
    out.bytes -= work->bytes;
  }
  for (std::size_t i = 0; i < is_called.size(); ++i)
    if (is_called[i]) out.collectives.push_back(piece.collectives[i]);
  return out;
}

StepFlops flops_of(const Op& op, const Tables& tables) {
  double forward = 0, backward = 0, repeated = 0;
  const auto pieces = [&] {
    const Segment& segment = tables.segments[op.item];
    return std::span(tables.units[segment.unit].pieces).subspan(segment.first_piece, segment.num_pieces);
  };
  const auto add_pieces = [&] {
    for (const Piece& piece : pieces()) {
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
      for (const RecomputedPiece& piece : recomputed(pieces())) forward += piece.flops;
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

// From the last step to the first, with the names of the values that are needed after each.
std::vector<bool> results_needed(std::span<const Step* const> steps) {
  std::vector<bool> out(steps.size());
  std::set<std::string> needed;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const Step& step = *steps[i];
    out[i] = std::ranges::any_of(step.writes, [&](const auto& value) { return needed.contains(value); });
    for (const std::string& value : step.writes) needed.erase(value);
    if (!is_linear(step) || out[i]) needed.insert(step.reads.begin(), step.reads.end());
  }
  return out;
}

std::vector<RecomputedPiece> recomputed(std::span<const Piece> pieces) {
  std::vector<const Step*> steps;
  for (const Piece& piece : pieces)
    for (const Step& step : piece.steps) steps.push_back(&step);
  const std::vector<bool> is_needed = results_needed(steps);
  std::vector<RecomputedPiece> out;
  std::size_t first = 0;  // step of the piece
  for (const Piece& piece : pieces) {
    std::vector<const ResultWork*> omitted;
    for (const ResultWork& work : piece.result_work)
      if (work.is_kept || (work.step >= 0 && !is_needed[first + static_cast<std::size_t>(work.step)]))
        omitted.push_back(&work);
    out.push_back(without(piece, omitted));
    first += piece.steps.size();
  }
  return out;
}

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
