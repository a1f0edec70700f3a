#include "tessera/simulate/profile.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::simulate {
namespace {

using program::CellKind;
using program::OpKind;

std::int64_t bucket_bytes(const program::Bucket& bucket) {
  return bucket.elements * bytes_of(bucket.storage);
}

std::int64_t cell_bytes(const program::Cell& cell, const program::Tables& tables) {
  if (cell.kind == CellKind::value || cell.kind == CellKind::gradient) return tables.values[cell.item].bytes;
  if (cell.kind == CellKind::number || is_of_micro(cell.kind)) return 0;
  return bucket_bytes(tables.buckets[cell.item]);
}

struct Meeting {
  std::int64_t came = 0;
  program::Span span;  // from when the last rank came
};

// Equal for the ranks that meet in an op. A send (>3.0!) and its receive (<3.0) share the cell.
std::string name_of_meeting(const RanOp& op) {
  if (op.kind.what != OpKind::send) return cat(op.step, ' ', op.group, ' ', op.lane, ' ', op.word);
  return cat(op.step, ' ', op.group, ' ', op.word.substr(1, op.word.find('!') - 1));
}

using Seconds = std::map<OpClass, std::map<std::int64_t, std::vector<double>>>;

void add_meetings(std::span<const RanOp> ran, Seconds& out) {
  std::map<std::pair<OpClass, std::int64_t>, std::map<std::string, Meeting>> meetings;
  for (const RanOp& op : ran) {
    if (op.kind.ranks == 1) continue;
    Meeting& meeting = meetings[{op.kind, op.size}][name_of_meeting(op)];
    ++meeting.came;
    meeting.span = {std::max(meeting.span.start, op.span.start), std::max(meeting.span.end, op.span.end)};
  }
  for (const auto& [key, named] : meetings)
    for (const auto& [name, meeting] : named)
      if (meeting.came == key.first.ranks)
        out[key.first][key.second].push_back(std::max(0.0, meeting.span.end - meeting.span.start));
}

std::string needed(const OpClass& kind) {
  if (kind.what == OpKind::backward_input || kind.what == OpKind::backward_weight)
    return "one with layout.schedule = zb-h1";
  if (program::is_compute(kind.what)) return "one of the same model, with any schedule";
  return cat("one in which ", kind.ranks, " rank(s) do it");
}

}  // namespace

OpClass kind_of(const program::Op& op, const program::Tables& tables) {
  const OpKind what = op.what == OpKind::receive ? OpKind::send : op.what;
  const bool is_transfer = what == OpKind::send;
  return {.what = what,
          .segment = program::is_compute(what) ? std::int64_t{op.item} : -1,
          .ranks = is_transfer ? 2 : tables.size_of(op.along)};
}

std::int64_t op_size(const program::Op& op, const program::Tables& tables) {
  if (program::is_compute(op.what)) {
    const auto& segment = tables.segments[op.item];
    const auto& values = segment.writes.empty() ? segment.reads : segment.writes;
    return values.empty() ? 0 : tables.values[values.front()].bytes;
  }
  if (op.what == OpKind::sum) return 0;
  return names_cell(op.what) ? cell_bytes(named_cell(op), tables) : bucket_bytes(tables.buckets[op.item]);
}

Profile::Profile(std::span<const RanOp> ran) {
  Seconds all;
  for (const RanOp& op : ran)
    if (op.kind.ranks == 1) all[op.kind][op.size].push_back(op.span.end - op.span.start);
  add_meetings(ran, all);
  for (auto& [kind, sizes] : all)
    for (auto& [size, seconds] : sizes) seconds_[kind][size] = median(std::move(seconds));
}

std::optional<double> Profile::seconds(OpClass kind, std::int64_t size) const {
  const auto found = seconds_.find(kind);
  if (found == seconds_.end()) return std::nullopt;
  const auto& [measured, taken] = *std::ranges::min_element(
      found->second, {}, [&](const auto& entry) { return std::abs(entry.first - size); });
  return measured == 0 ? taken : taken * static_cast<double>(size) / static_cast<double>(measured);
}

program::Cost Profile::cost(const program::Op& op, const program::Tables& tables) const {
  const OpClass kind = kind_of(op, tables);
  const std::int64_t size = op_size(op, tables);
  auto taken = seconds(kind, size);
  if (!taken && kind.what == OpKind::backward) {
    const auto input = seconds({OpKind::backward_input, kind.segment, 1}, size);
    const auto weight = seconds({OpKind::backward_weight, kind.segment, 1}, size);
    if (input && weight) taken = *input + *weight;
  }
  // Alone, it does nothing; runs of more ranks need not have it.
  if (!taken && kind.ranks == 1 && (kind.what == OpKind::sum || kind.what == OpKind::reduce)) taken = 0;
  if (!taken)
    throw UserError(cat("no trace given has an op like ", program::word(op, tables),
                        ". Add a trace of a run that has: ", needed(kind)));
  const std::int16_t link = kind.ranks > 1 ? op.along : std::int16_t{-1};
  return {.phases = {{.axes = link, .seconds = *taken}}, .bytes = size};
}

}  // namespace tessera::simulate
