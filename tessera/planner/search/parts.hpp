// The time of a step in parts that add up to it.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/planner/estimate.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/simulate/costs.hpp"
#include "tessera/simulate/timeline.hpp"

namespace tessera::planner {

struct Part {
  const char* name;
  double seconds;
  bool operator==(const Part&) const = default;
};

// A simulated step on the rank that computes longest: what its compute lane does and what it waits for.
std::vector<Part> parts_of(const program::Program& program, const simulate::OpCosts& costs,
                           const simulate::Timeline& timeline, double step_seconds);

// By the closed form; what its parts do not add up to is the last one.
std::vector<Part> parts_of(const Estimate& estimate, double step_seconds);

}  // namespace tessera::planner
