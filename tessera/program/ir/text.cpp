#include "tessera/program/ir/text.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/text.hpp"
#include "tessera/program/ir/letters.hpp"

namespace tessera::program {
namespace {

std::string cell_word(const Op& op) {
  const Cell cell = named_cell(op);
  std::string out;
  const auto kind = static_cast<std::size_t>(cell.kind);
  if (cell.kind != CellKind::value) out += kind < kCellLetters.size() ? kCellLetters[kind] : '?';
  out += cat(cell.item);
  if (cell.micro != kOfStep) out += cat('.', cell.micro);
  return out;
}

std::string lane_text(const Lane& lane, const Tables& tables) {
  switch (lane.kind) {
    case LaneKind::compute:
      return lane == kAheadLane ? "@ahead" : "@compute";
    case LaneKind::copy:
      return "@copy";
    case LaneKind::update:
      return "@update";
    case LaneKind::communication:
      break;
  }
  return cat("@", tables.axis_sets[lane.axes].name, lane.direction == 0 ? "" : "-");
}

std::string line(const Sequence& sequence, std::size_t at, const Tables& tables) {
  const Op& op = sequence.ops[at];
  std::string out = cat("  ", at, ": ", word(op, tables), " ", lane_text(op.lane, tables));
  if (op.along >= 0) out += cat(" over ", tables.axis_sets[op.along].name);
  if (op.hop != 0) out += cat(" hop ", op.hop);
  if (op.cost != 0) out += cat(" cost ", op.cost);
  const char* between = " wait ";
  for (const std::uint32_t wait : sequence.waits_of(op)) {
    out += cat(between, wait & kPreviousStep ? "^" : "", wait & ~kPreviousStep);
    between = ",";
  }
  return out;
}

}  // namespace

std::string word(const Op& op, const Tables& tables) {
  const char letter =
      op.what == OpKind::forward && (op.flags & kNoTape) ? kNoTapeLetter : info(op.what).letter;
  std::string out;
  switch (info(op.what).item) {
    case ItemOf::segment:
      out = cat(op.item, letter, op.micro);
      break;
    case ItemOf::number:
      out = cat(letter, op.item < tables.numbers.size() ? tables.numbers[op.item].name : cat(op.item));
      break;
    case ItemOf::cell:
      out = cat(letter, cell_word(op));
      break;
    case ItemOf::bucket:
    case ItemOf::service:
      out = cat(letter, op.item);
      break;
  }
  if (op.flags & kEndsSource) out += '!';
  if (op.flags & kOfShard) out += '~';
  if (op.flags & kUnchanged) out += '=';
  if (op.flags & kAhead) out += '+';
  if (op.flags & kOfWorker) out += '^';
  if (op.flags & kOfServer) out += '_';
  if (op.part != 0) out += cat('/', op.part);
  return out;
}

std::string waited_words(const Sequence& sequence, const Op& op, const Tables& tables) {
  std::string out;
  for (const std::uint32_t wait : sequence.waits_of(op))
    if (!(wait & kPreviousStep)) out += cat(out.empty() ? "" : " ", word(sequence.ops[wait], tables));
  return out;
}

std::string name_of(const Lane& lane, const Tables& tables) {
  switch (lane.kind) {
    case LaneKind::compute:
      return "compute";
    case LaneKind::copy:
      return "copy";
    case LaneKind::update:
      return "update";
    case LaneKind::communication:
      break;
  }
  return cat("communication ", tables.axis_sets[static_cast<std::size_t>(lane.axes)].name,
             lane.direction ? " down" : "");
}

std::string words(const Sequence& sequence, const Tables& tables) {
  std::string out;
  for (const Op& op : sequence.ops) {
    if (!out.empty()) out += ' ';
    out += word(op, tables);
  }
  return out;
}

std::string to_text(const Program& program) {
  std::string out;
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    out += cat("class ", c, "\n");
    for (std::size_t at = 0; at < program.classes[c].ops.size(); ++at)
      out += cat(line(program.classes[c], at, program.tables), "\n");
  }
  return out;
}

}  // namespace tessera::program
