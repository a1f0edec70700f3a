#include "tessera/simulate/costs.hpp"

#include <algorithm>

namespace tessera::simulate {
namespace {

using program::Op;

// A class has a few kinds of op for each item, so those of one item are looked through.
struct Kind {
  program::OpKind what;
  std::uint16_t flags, part;
  std::int16_t along, hop;
  std::uint32_t cost;
  bool is_of(const Op& op) const {
    return what == op.what && flags == op.flags && part == op.part && along == op.along && hop == op.hop;
  }
};

}  // namespace

OpCosts table_costs(const program::Program& program) {
  OpCosts out{program.tables.costs, {}};
  if (out.costs.empty()) out.costs.emplace_back();
  for (const auto& sequence : program.classes) {
    auto& of_op = out.of_op.emplace_back();
    of_op.reserve(sequence.ops.size());
    for (const Op& op : sequence.ops) of_op.push_back(op.cost);
  }
  return out;
}

OpCosts costs_by(const program::Program& program, const CostOf& cost_of) {
  OpCosts out;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    std::vector<std::vector<Kind>> by_item;
    auto& of_op = out.of_op.emplace_back();
    of_op.reserve(program.classes[c].ops.size());
    for (const Op& op : program.classes[c].ops) {
      if (op.item >= by_item.size()) by_item.resize(op.item + 1);
      auto& kinds = by_item[op.item];
      auto kind = std::ranges::find_if(kinds, [&](const Kind& k) { return k.is_of(op); });
      if (kind == kinds.end()) {
        kinds.push_back(
            {op.what, op.flags, op.part, op.along, op.hop, static_cast<std::uint32_t>(out.costs.size())});
        out.costs.push_back(cost_of(c, op));
        kind = kinds.end() - 1;
      }
      of_op.push_back(kind->cost);
    }
  }
  return out;
}

OpCosts repeated(const OpCosts& costs, const program::Steps& steps) {
  OpCosts out{costs.costs, {}};
  for (std::size_t c = 0; c < costs.of_op.size(); ++c) {
    const auto& of_class = costs.of_op[c];
    auto& all = out.of_op.emplace_back(steps.place[c].size());
    for (std::size_t i = 0; i < all.size(); ++i) all[steps.place[c][i]] = of_class[i % of_class.size()];
  }
  return out;
}

double total_seconds(const program::Cost& cost) {
  double total = 0;
  for (const program::Phase& phase : cost.phases) total += phase.seconds;
  return total;
}

}  // namespace tessera::simulate
