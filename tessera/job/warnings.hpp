// What of a run is allowed and yet hardly meant: told before it starts.
#pragma once

#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::job {

// A sentence each. `cores`: those that the ranks of this host share; 0: not known, or not all ranks are here.
// `started_by` is the program that has started the ranks, empty if Tessera starts them.
std::vector<std::string> warnings_of(const spec::Run& run, int cores, const std::string& started_by = "");

}  // namespace tessera::job
