#include <algorithm>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/draw/panels.hpp"
#include "tessera/draw/visits.hpp"

namespace tessera::draw {
namespace {

using program::LaneKind;

LaneKind kind_of(const std::string& lane) {
  if (lane == "compute") return LaneKind::compute;
  if (lane == "copy") return LaneKind::copy;
  return lane == "update" ? LaneKind::update : LaneKind::communication;
}

using Rows = std::map<std::pair<LaneKind, std::string>, Row>;  // compute first

}  // namespace

std::int64_t middle_step(std::span<const Traced> traced) {
  TESSERA_CHECK(!traced.empty(), "a trace without ops has no step");
  std::map<std::int64_t, program::Span> steps;
  for (const Traced& op : traced) {
    auto& span = steps.try_emplace(op.step, program::Span{op.bar.start, op.bar.end}).first->second;
    span = {std::min(span.start, op.bar.start), std::max(span.end, op.bar.end)};
  }
  std::vector<std::pair<double, std::int64_t>> lengths;
  for (const auto& [step, span] : steps) lengths.emplace_back(span.end - span.start, step);
  std::ranges::sort(lengths);
  return lengths[(lengths.size() - 1) / 2].second;
}

bool steps_overlap(std::span<const Traced> traced) {
  return std::ranges::any_of(traced, [](const Traced& op) { return kind_of(op.lane) == LaneKind::update; });
}

Panel measured(std::span<const Traced> traced, std::int64_t step, std::int64_t num_steps) {
  double first = std::numeric_limits<double>::infinity();
  std::map<std::int64_t, Rows> ranks;
  std::map<std::int64_t, std::set<std::uint32_t>> segments_of_rank;
  for (const Traced& op : traced) {
    if (op.step < step || op.step >= step + num_steps) continue;
    first = std::min(first, op.bar.start);
    auto& segments = segments_of_rank[op.rank];
    if (op.segment) segments.insert(*op.segment);
  }
  std::vector<std::set<std::uint32_t>> segments;
  std::map<std::int64_t, std::size_t> place_of_rank;
  for (const auto& [rank, own] : segments_of_rank) {
    place_of_rank[rank] = segments.size();
    segments.push_back(own);
  }
  const auto visit_of = visits(segments);
  for (const Traced& op : traced) {
    if (op.step < step || op.step >= step + num_steps) continue;
    const LaneKind kind = kind_of(op.lane);
    Row& row = ranks[op.rank][{kind, op.lane}];
    row.kind = kind;
    row.lane = op.lane;
    Bar& bar = row.bars.emplace_back(op.bar);
    bar.start -= first;
    bar.end -= first;
    if (op.segment) bar.visit = visit_of[place_of_rank.at(op.rank)].at(*op.segment);
  }
  Panel panel{.title = "measured"};
  for (auto& [rank, rows] : ranks) {
    Lanes& lanes = panel.ranks.emplace_back();
    lanes.name = cat("rank ", rank);
    for (auto& [lane, row] : rows) lanes.rows.push_back(std::move(row));
    if (lanes.rows.front().kind == LaneKind::compute) lanes.held = held_activations(lanes.rows.front());
  }
  measure(panel);
  return panel;
}

}  // namespace tessera::draw
