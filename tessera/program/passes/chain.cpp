#include "tessera/program/passes/chain.hpp"

#include "tessera/base/text.hpp"
#include "tessera/program/passes/generate.hpp"

namespace tessera::program {
namespace {

constexpr std::int16_t kValues = 0, kGradients = 1;  // axis sets
constexpr std::uint32_t kFree = 0, kTransfer = 1, kFirstOfStages = 2;

Tables chain_tables(const Order& order) {
  Tables tables;
  tables.axes = {{"pp", static_cast<std::int64_t>(order.ranks.size())}};
  tables.axis_sets = {{"pp", {0}}, {"pp.gradients", {0}}};
  tables.groups = {kValues, kGradients};
  tables.stage_axis = 0;
  tables.values_over = kValues;
  tables.gradients_over = kGradients;
  tables.num_micro = order.num_micro;
  const auto num_stages = static_cast<std::uint32_t>(order.rank_of_stage.size());
  for (std::uint32_t stage = 0; stage < num_stages; ++stage) {
    const std::string name = cat("stage.", stage);
    tables.units.push_back({name, {{.name = "all"}}});
    Segment segment{.unit = stage, .num_pieces = 1, .buckets = {stage}};
    if (stage > 0) segment.reads = {stage - 1};
    if (stage + 1 < num_stages) {
      segment.writes = {stage};
      tables.values.push_back({cat("hidden.", stage)});
    }
    tables.segments.push_back(std::move(segment));
    tables.buckets.push_back({.name = name, .full_resident = true});
  }
  assign_ends(tables);
  return tables;
}

std::uint32_t cost_of(const Op& op) {
  if (op.what == OpKind::send || op.what == OpKind::receive) return kTransfer;
  return is_compute(op.what) ? kFirstOfStages + 5 * op.item + static_cast<std::uint32_t>(op.what) : kFree;
}

}  // namespace

Program chain(const Order& order, const Costs& costs) {
  Staging staging{{}, costs};
  for (std::uint32_t stage = 0; stage <= order.rank_of_stage.size(); ++stage)
    staging.first_segment.push_back(stage);
  Program program = generate(chain_tables(order), order, staging);
  auto& table = program.tables.costs;
  table.resize(kFirstOfStages);
  table[kTransfer].phases = {{kValues, costs.transfer}};
  for (std::uint32_t stage = 0; stage < order.rank_of_stage.size(); ++stage)
    for (int what = 0; what < 5; ++what)
      table.push_back({.phases = {{-1, seconds_of({static_cast<OpKind>(what), stage, 0}, costs)}}});
  for (Sequence& sequence : program.classes)
    for (Op& op : sequence.ops) op.cost = cost_of(op);
  return program;
}

}  // namespace tessera::program
