// Deals work to devices of unequal speed: micro-batches to data-parallel ranks, blocks to stages.
#pragma once

#include "tessera/planner/cluster.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::planner {

// How fast each rank computes this model, over the slowest; empty: all alike. Ranks lie on the nodes in the
// order of the cluster's file.
std::vector<double> speeds_of(const Cluster& cluster, const spec::Run& run, const Constants& constants);

// Sets layout.micro_batches_by_rank, or with several stages layout.stages, in proportion to speed; leaves a
// layout alone whose ranks have several stages each. `head` is what the head costs, in blocks.
void deal_by_speed(spec::Run& run, const std::vector<double>& speeds, double head);

// How long the rank that takes longest computes, over what the slowest device would with an even share.
double slowest_share(const spec::Layout& layout, const std::vector<double>& speeds, double head);

}  // namespace tessera::planner
