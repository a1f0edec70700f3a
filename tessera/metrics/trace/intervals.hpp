// Returns how much time spans cover, alone and together. Each moment counts once.
#pragma once

#include <utility>
#include <vector>

namespace tessera::metrics {

using Interval = std::pair<double, double>;  // begin and end, in seconds

// The same moments as disjoint, sorted intervals.
std::vector<Interval> merged(std::vector<Interval> intervals);

double covered_seconds(std::vector<Interval> intervals);
// Seconds covered by both.
double overlap_seconds(std::vector<Interval> a, std::vector<Interval> b);

}  // namespace tessera::metrics
