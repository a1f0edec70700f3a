// What a step costs when experts are not loaded evenly.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tessera/plan/model/family.hpp"

namespace tessera::plan {

// Of the tokens of each expert of a layer: what the busiest of the ranks that share them has, over an even
// share. Ranks hold neighbours.
double busiest_share(std::span<const double> tokens_by_expert, std::int64_t ep);

// Replaces each block of the tables by what it is when the busiest rank's experts get that many times an even
// share: ranks that share experts meet in every block, so all of them wait for that one. `model_under` makes
// the model plan for such a load (layout.expert_load).
program::Tables under_loads(program::Tables tables, std::span<const double> by_block,
                            const std::function<ModelPlan(double load)>& model_under);

}  // namespace tessera::plan
