// Pictures of schedules for tests: a compute order as a program on a bare chain of stages, simulated.
#pragma once

#include "tessera/draw/panels.hpp"
#include "tessera/program/passes/chain.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::draw {

inline Picture picture_of(const program::Order& order, const program::Costs& costs, std::string title) {
  const program::Program program = program::chain(order, costs);
  const auto timeline = simulate::simulate(program, simulate::table_costs(program));
  return {.title = std::move(title), .panels = {predicted(program, timeline)}};
}

}  // namespace tessera::draw
