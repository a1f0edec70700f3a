// Runs of our own as lines of a table, so that a profile of this machine is made as one of any other stack.
#pragma once

#include <string>

#include "tessera/planner/cluster.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::planner {

// The columns that own_record fills.
std::string own_columns();

// One run that took so long for a step.
std::string own_record(const spec::Run& run, const Cluster& cluster, double step_seconds);

}  // namespace tessera::planner
