// What this machine's cores can do, measured in about a second, as a cluster of so many ranks.
#pragma once

#include "tessera/planner/cluster.hpp"

namespace tessera::cli {

// All ranks compute at once, as they would in a step: more ranks than cores have a part of a core each. Where
// each has a core of its own and these differ, by what others do there or by kind, the cluster says so, and a
// plan deals work by it.
// Products are measured in the run's precision; where they are slower than in fp32, a warning says so.
planner::Cluster this_machine(int ranks, spec::Precision precision);

// As a file that --cluster takes.
std::string to_text(const planner::Cluster& cluster);

}  // namespace tessera::cli
