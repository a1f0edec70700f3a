// The tables of a request: units, parameters in buckets, values and axes of a model under a layout. No
// tensor is made.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/plan/model/step_request.hpp"
#include "tessera/plan/stages/cuts.hpp"
#include "tessera/program/ir/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// Tables of a model under pipeline and data parallelism. FLOPs are those of matrix products (attention over
// the full square); elementwise work is priced by the bytes it moves. rank_of_unit: each unit's position on
// the pipeline axis; empty: all at 0.
program::Tables describe(const StepRequest& request, std::span<const std::uint32_t> rank_of_unit,
                         const Cuts& cuts);
// The same with all units at 0 and blocks cut as layout.recompute has it.
program::Tables describe(const StepRequest& request);

// Parameters of the model, without padding.
std::int64_t num_parameters(const program::Tables& tables);
// What a checkpoint holds of them: the parameters as they are stored, and the optimizer's state.
std::int64_t checkpoint_bytes(const program::Tables& tables);
// Of these, those that one token is computed with: of the experts its own, of an embedding that is no head
// its own row.
std::int64_t num_active_parameters(const spec::Model& model, const program::Tables& tables);

}  // namespace tessera::plan
