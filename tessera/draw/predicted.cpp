#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/draw/panels.hpp"
#include "tessera/draw/visits.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/memory/memory.hpp"

namespace tessera::draw {
namespace {

using program::LaneKind;
using program::Op;
using program::Program;

std::vector<Row> rows_of(const Program& program, const program::Sequence& sequence,
                         const std::vector<program::Span>& spans,
                         const std::map<std::uint32_t, std::uint32_t>& visit_of) {
  std::map<std::pair<LaneKind, std::string>, Row> rows;  // compute first
  for (std::size_t i = 0; i < sequence.ops.size(); ++i) {
    const Op& op = sequence.ops[i];
    const std::string lane = program::name_of(op.lane, program.tables);
    Row& row = rows[{op.lane.kind, lane}];
    row.kind = op.lane.kind;
    row.lane = lane;
    const bool computes = program::is_compute(op.what);
    row.bars.push_back({.word = program::word(op, program.tables),
                        .what = op.what,
                        .micro = op.micro,
                        .visit = computes ? visit_of.at(op.item) : 0,
                        .start = spans[i].start,
                        .end = spans[i].end,
                        .waits = program::waited_words(sequence, op, program.tables)});
  }
  std::vector<Row> out;
  for (auto& [lane, row] : rows) out.push_back(std::move(row));
  return out;
}

// Bytes while each compute op runs. The replay counts in issue order, so what other lanes receive early
// counts from the op they are issued before.
std::vector<Level> held_bytes(const program::Sequence& sequence, const program::Tables& tables,
                              const std::vector<program::Span>& spans) {
  const program::Memory memory = program::replay_memory(sequence, tables);
  std::vector<Level> out = {{0, static_cast<double>(memory.end_bytes)}};  // parameters and optimizer state
  double since_last = 0;
  for (std::size_t i = 0; i < sequence.ops.size(); ++i) {
    since_last = std::max(since_last, static_cast<double>(memory.during[i]));
    if (sequence.ops[i].lane.kind != LaneKind::compute) continue;
    out.push_back({spans[i].start, since_last});
    since_last = 0;
  }
  return out;
}

}  // namespace

Panel predicted(const Program& program, const simulate::Timeline& timeline, Held held) {
  TESSERA_CHECK(timeline.classes.size() == program.classes.size(), "a timeline of ", timeline.classes.size(),
                " classes for a program of ", program.classes.size());
  std::vector<std::set<std::uint32_t>> segments;
  for (const auto& sequence : program.classes) {
    auto& own = segments.emplace_back();
    for (const Op& op : sequence.ops)
      if (program::is_compute(op.what)) own.insert(op.item);
  }
  const auto visit_of = visits(segments);
  Panel panel{.title = "predicted"};
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const auto& sequence = program.classes[c];
    const auto& spans = timeline.classes[c];
    TESSERA_CHECK(spans.size() == sequence.ops.size(), "class ", c, " has ", spans.size(), " times for ",
                  sequence.ops.size(), " ops");
    Lanes& rank = panel.ranks.emplace_back();
    const auto& class_of_rank = program.tables.class_of_rank;
    rank.name = cat("rank ", std::ranges::find(class_of_rank, c) - class_of_rank.begin());
    rank.num_ranks = std::ranges::count(class_of_rank, c);
    rank.rows = rows_of(program, sequence, spans, visit_of[c]);
    if (rank.rows.empty() || rank.rows.front().kind != LaneKind::compute) continue;
    rank.held = held == Held::bytes ? held_bytes(sequence, program.tables, spans)
                                    : held_activations(rank.rows.front());
  }
  measure(panel);
  return panel;
}

}  // namespace tessera::draw
