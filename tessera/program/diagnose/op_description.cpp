#include "tessera/program/diagnose/op_description.hpp"

#include <array>

#include "tessera/base/text.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::program {

std::string seconds_text(double seconds) { return cat(fixed(seconds, 1), " s"); }

namespace {

std::string item_text(const Op& op, const Tables& tables) {
  switch (info(op.what).item) {
    case ItemOf::segment:
      return tables.units[tables.segments[op.item].unit].name;
    case ItemOf::number:
      return tables.numbers[op.item].name;
    case ItemOf::bucket:
      return tables.buckets[op.item].name;
    case ItemOf::service:
      return std::array{"pull", "push", "update"}.at(op.item);
    case ItemOf::cell:
      break;
  }
  return described(named_cell(op), tables);
}

std::string doing_text(const Program& program, int rank, const Activity& at, double now_seconds) {
  const double since = at.started_seconds > 0 ? at.started_seconds : at.issued_seconds;
  const std::string lasting = cat(" for ", seconds_text(now_seconds - since));
  const std::string of_step = at.step > 0 ? cat(" of step ", at.step) : "";
  if (at.ended_seconds > 0) {
    const std::string what = at.op >= 0 ? described(program, rank, at.op) : std::string("its work");
    return cat("past ", what, of_step, " since ", seconds_text(now_seconds - at.ended_seconds));
  }
  switch (at.doing) {
    case Doing::starting:
      return cat("starting", lasting);
    case Doing::meeting:
      return cat("waiting to meet the other ranks", at.step > 0 ? cat(" at the end", of_step) : "", lasting);
    case Doing::preparing:
      return cat("making its weights", lasting);
    case Doing::loading:
      return cat("reading its starting weights (model.weights)", lasting);
    case Doing::resuming:
      return cat("reading the checkpoint that it goes on from", lasting);
    case Doing::joining:
      return cat("waiting to be let in when the others meet", lasting);
    case Doing::reading_data:
      return cat("reading the data", of_step, lasting);
    case Doing::writing:
      return cat("writing metrics", of_step, lasting);
    case Doing::saving:
      return cat("saving the checkpoint", of_step, lasting);
    case Doing::evaluating:
      return cat("evaluating after step ", at.step, lasting);
    case Doing::serving:
      return cat("serving its workers", of_step, lasting);
    case Doing::closing:
      return cat("writing the trace and closing its files", lasting);
    case Doing::finished:
      return cat("finished", lasting);
    case Doing::sending:
      return cat("waiting for its ", described(program, rank, at.op), " to be received", lasting);
    case Doing::computing:
    case Doing::communicating:
      break;
  }
  return cat(at.started_seconds > 0 ? "in " : "waiting to start ", described(program, rank, at.op), of_step,
             lasting);
}

}  // namespace

std::string described(const Cell& cell, const Tables& tables) {
  const auto of_micro = [&](const char* what, const std::string& name) {
    return cat(what, name, ", micro-batch ", cell.micro);
  };
  const auto segment = [&] {
    const Segment& s = tables.segments[cell.item];
    const Unit& unit = tables.units[s.unit];
    if (s.num_pieces == unit.pieces.size()) return unit.name;
    const std::string& first = unit.pieces[s.first_piece].name;
    return cat(unit.name, " (", first,
               s.num_pieces > 1 ? cat(" to ", unit.pieces[s.first_piece + s.num_pieces - 1].name) : "", ")");
  };
  switch (cell.kind) {
    case CellKind::value:
      return of_micro("value ", tables.values[cell.item].name);
    case CellKind::gradient:
      return of_micro("gradient of ", tables.values[cell.item].name);
    case CellKind::tape:
      return of_micro("tape of ", segment());
    case CellKind::weight_work:
      return of_micro("weight work of ", segment());
    case CellKind::full:
      return cat("gathered weights of ", tables.buckets[cell.item].name);
    case CellKind::ahead:
      return cat("weights for the next step of ", tables.buckets[cell.item].name);
    case CellKind::weight_grad:
      return cat("weight gradient of ", tables.buckets[cell.item].name);
    case CellKind::shard:
      return cat("parameters of ", tables.buckets[cell.item].name);
    case CellKind::shard_grad:
      return cat("reduced gradient of ", tables.buckets[cell.item].name);
    case CellKind::state:
      return cat("optimizer state of ", tables.buckets[cell.item].name);
    case CellKind::number:
      break;
  }
  return cat("number ", tables.numbers[cell.item].name);
}

std::string title(const Op& op, const Tables& tables) {
  const std::string of_micro =
      op.micro != kOfStep && !names_cell(op.what) ? cat(", micro-batch ", op.micro) : "";
  return cat(name_of(op.what), " ", item_text(op, tables), of_micro);
}

std::string described(const Program& program, int rank, std::int32_t op) {
  const Tables& tables = program.tables;
  const auto& ops = program.classes[tables.class_of_rank[static_cast<std::size_t>(rank)]].ops;
  if (op < 0 || op >= static_cast<std::int32_t>(ops.size())) return "no op";
  const Op& at = ops[static_cast<std::size_t>(op)];
  std::string out =
      cat("op ", op, " (", word(at, tables), ", ", info(at.what).description, item_text(at, tables));
  if (at.micro != kOfStep && !names_cell(at.what)) out += cat(", micro-batch ", at.micro);
  if (at.what == OpKind::send || at.what == OpKind::receive) {
    const auto set = sets_of(tables)[static_cast<std::size_t>(at.along)];
    out += cat(at.what == OpKind::send ? " to rank " : " from rank ", set.neighbour(rank, at.hop));
  }
  return out + ")";
}

std::string described(const Program& program, int rank, const RankState& state, double now_seconds) {
  if (state.beat_seconds == 0) return "not heard of since it was started";
  const Activity at = state.busiest();
  std::string doing =
      at.issued_seconds > 0 ? doing_text(program, rank, at, now_seconds) : std::string("starting");
  if (const Activity* main = state.now(); main && *main != at && main->op >= 0 && main->started_seconds == 0)
    doing += cat(", before ", described(program, rank, main->op));
  const double silence = now_seconds - state.beat_seconds;
  return silence > kSilentSeconds ? cat("silent for ", seconds_text(silence), ", last seen ", doing) : doing;
}

}  // namespace tessera::program
