// Pictures of schedules for tests: a compute order and its walk as a program with times.
#pragma once

#include "tessera/base/text.hpp"
#include "tessera/draw/panels.hpp"
#include "tessera/program/walk_order.hpp"

namespace tessera::draw {

// A segment per virtual stage, a class per rank, compute only; transfers as sends on a lane of their own when they
// take time.
inline Picture picture_of(const program::Order& order, const program::Costs& costs, std::string title) {
  const program::Walk walk = program::walk(order, costs);
  program::Program program;
  program.tables.segments.resize(order.rank_of_stage.size());
  program.tables.num_micro = order.num_micro;
  program.tables.axes = {{"pp", static_cast<std::int64_t>(order.ranks.size())}};
  program.tables.axis_sets = {{"pp", {0}}};
  simulate::Timeline timeline;
  for (std::uint32_t rank = 0; rank < order.ranks.size(); ++rank) {
    program.tables.class_of_rank.push_back(rank);
    auto& sequence = program.classes.emplace_back();
    auto& spans = timeline.classes.emplace_back(walk.tasks[rank]);
    for (const program::Task& task : order.ranks[rank])
      sequence.ops.push_back({.what = task.what, .item = task.stage, .micro = task.micro});
    if (costs.transfer <= 0) continue;
    for (const program::Transfer& transfer : walk.transfers) {
      if (order.rank_of_stage[transfer.stage] != rank) continue;
      const auto kind = transfer.is_gradient ? program::CellKind::gradient : program::CellKind::value;
      sequence.ops.push_back({.what = program::What::send,
                              .lane = program::communication(0),
                              .item = transfer.stage,
                              .micro = transfer.micro,
                              .along = 0,
                              .hop = 1,
                              .flags = static_cast<std::uint16_t>(kind)});
      spans.push_back(transfer.span);
    }
  }
  timeline.makespan = walk.makespan;
  return {.title = std::move(title), .panels = {predicted(program, timeline)}};
}

}  // namespace tessera::draw
