// Returns which of its rank's virtual stages a segment is in, read off who computes which segments.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace tessera::draw {

// Per rank, of the segments it computes: how many virtual stages of the rank come before. A stage is a run of
// neighbouring segments; where a V turns, two stages of one rank touch, and the run is cut in the middle.
std::vector<std::map<std::uint32_t, std::uint32_t>> visits(
    const std::vector<std::set<std::uint32_t>>& segments_of_rank);

}  // namespace tessera::draw
