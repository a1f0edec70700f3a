// Chooses, of many layouts, a few that differ most from each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::planner {

// ("pp", "2"), ("schedule", "zb-v"), ...; the same names for all layouts.
std::vector<std::pair<std::string, std::string>> traits(const spec::Run& run);

// The traits that are not as by default, in one line.
std::string layout_text(const spec::Run& run);

// So many of the runs, in their order, drawn so that as many pairs of traits as possible are among them.
std::vector<spec::Run> spread(std::span<const spec::Run> runs, std::size_t count, std::uint64_t seed);

}  // namespace tessera::planner
