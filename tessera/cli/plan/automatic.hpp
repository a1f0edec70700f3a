// layout = "auto": the layout is planned when training starts.
#pragma once

#include "tessera/job/ranks.hpp"

namespace tessera::cli {

// If the run file leaves its layout to the planner: measures this machine, plans for the ranks that are
// started, says why, and puts the choice on the command line, so that all ranks have it. Otherwise does
// nothing. Throws UserError where ranks were started by something else, as each would choose for itself.
void plan_layout(job::JobOptions& options, bool quiet);

}  // namespace tessera::cli
