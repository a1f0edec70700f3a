// Reads what the ops of a trace took: from the events of `tessera train --trace` to what a profile is made
// of.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/metrics/trace/trace.hpp"
#include "tessera/simulate/profile.hpp"

namespace tessera::train {

// The ops after the first step, which pays for pages and caches; of a trace of one step, that one. `path` is
// for errors: throws UserError when an event does not say what it is.
std::vector<simulate::RanOp> ran_ops(std::span<const metrics::Event> events, const std::string& path);

// The profile of all these traces together: of one model, and of runs on the same number of busy cores.
simulate::Profile read_profile(std::span<const std::string> traces);

}  // namespace tessera::train
