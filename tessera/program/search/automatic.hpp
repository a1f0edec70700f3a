// Searches placements and orders for given costs and memory; the fixed schedules are among its candidates, so
// it is never worse than the best of them that holds no more.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>

#include "tessera/program/search/candidates.hpp"

namespace tessera::program {

struct Limits {
  // Held on any rank at a time: of a stage, where ranks have most stages. Activations of larger stages count
  // for more.
  std::int64_t activations = std::numeric_limits<std::int64_t>::max();
  // Built or walked while searching: the effort, counted, so that the answer is always the same. The fixed
  // schedules are looked at in any case.
  std::int64_t tasks = 25'000'000;
};

struct Found {
  Order order;
  std::size_t placed = 0;  // which of the placements
  std::string winner;      // the schedule or construction that it came from
  double makespan = 0;
};

// Seconds of an order on its placement, at least those of its walk.
using Makespan = std::function<double(const Order& order, const Placed& placed)>;

// The fastest order found within the limits, on one of the placements (of as many ranks and micro-batches).
// The search times orders by their walk, and lets `makespan`, if given, decide between the best of them and
// the fixed schedules. Throws UserError if no order holds so little.
Found automatic(std::span<const Placed> placed, const Limits& limits = {}, const Makespan& makespan = {});

}  // namespace tessera::program
