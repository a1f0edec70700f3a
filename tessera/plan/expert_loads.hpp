// What a step costs when experts are not loaded evenly.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/program/ir/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// Of the tokens of each expert of a layer: what the busiest of the ranks that share them has, over an even
// share. Ranks hold neighbours.
double busiest_share(std::span<const double> tokens_by_expert, std::int64_t ep);

// The run's tables with blocks as they are when the busiest rank's experts get so many times an even share,
// by block. Ranks that share experts meet in every block, so all of them wait for that one.
program::Tables under_loads(const spec::Run& run, program::Tables tables, std::span<const double> by_block);

}  // namespace tessera::plan
