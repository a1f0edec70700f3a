// Prices of a program's ops on a cluster that was only described.
#pragma once

#include "tessera/planner/search/search.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/simulate/rates.hpp"

namespace tessera::planner {

// FLOPs and memory traffic of the forwards of a micro-batch.
struct Forwards {
  double flops = 0, moved = 0;
};
Forwards forward_of(const program::Unit& unit);
// The rates of all blocks.
Forwards forward_of_blocks(const program::Tables& tables);

// Products at the rate that the closed form gives them, each axis over the links that its ranks lie on.
// `blocks`: the forwards of all blocks of the model.
simulate::Rates rates_for(const Candidate& candidate, const Cluster& cluster, const Constants& constants,
                          const program::Tables& tables, const Forwards& blocks);
simulate::Rates rates_for(const Candidate& candidate, const Cluster& cluster, const Constants& constants,
                          const program::Tables& tables);

// The link of ranks that communicate as a ring, each `stride` apart.
simulate::Rates::Link link_over(double ranks, double stride, const Network& network);

}  // namespace tessera::planner
