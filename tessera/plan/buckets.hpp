// Which parameters lie together in a bucket, how they lie on the axes, and where their gradients are summed.
#pragma once

#include <span>

#include "tessera/plan/model/step_request.hpp"

namespace tessera::plan {

// Adds the buckets of the model to tables that have their axes. rank_of_unit: see describe.hpp.
void add_buckets(const StepRequest& request, std::span<const std::uint32_t> rank_of_unit,
                 program::Tables& tables);

}  // namespace tessera::plan
