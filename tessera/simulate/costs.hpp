// The cost of each op: phases by op, from the program's own table or from a function; equal ops share an
// entry.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/program/check/unroll.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::simulate {

struct OpCosts {
  std::vector<program::Cost> costs;
  std::vector<std::vector<std::uint32_t>> of_op;  // by class and op: into `costs`
  bool operator==(const OpCosts&) const = default;
};

// Of Op::cost and Tables::costs. A program without costs takes no time.
OpCosts table_costs(const program::Program& program);

using CostOf = std::function<program::Cost(std::uint32_t rank_class, const program::Op& op)>;

// Of a function, which is asked once for all micro-batches of an op: it must not look at `micro`.
OpCosts costs_by(const program::Program& program, const CostOf& cost_of);

// Of several steps as one program.
OpCosts repeated(const OpCosts& costs, const program::Steps& steps);

// Seconds of all phases.
double total_seconds(const program::Cost& cost);

}  // namespace tessera::simulate
