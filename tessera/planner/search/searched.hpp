// Searches a cluster, or parts of it, and simulates what it finds.
#pragma once

#include "tessera/planner/search/answer.hpp"

namespace tessera::planner {

// What tensors of a rank may take: what the smallest device leaves, or layout.memory_limit_mib if that is
// less.
double limit_of(const spec::Run& run, const Cluster& cluster);

// What the search found and simulated on one cluster.
struct Searched {
  Found found;
  Outcome outcome;
};

// By time; of fewer devices than all if they are faster. `out` gets the cluster.
Searched searched_time(const spec::Run& run, const Cluster& whole, const Fit& fit, const Ask& ask, Plan& out);
// By another objective; `out` gets the sizes and the cluster.
Searched searched_sizes(const spec::Run& run, const Cluster& whole, const Fit& fit, const Ask& ask,
                        Plan& out);

}  // namespace tessera::planner
