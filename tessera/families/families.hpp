// The families by their place in spec/families.def: what each says to the compiler, and of the files of
// `transformers`.
#pragma once

#include <span>

#include "tessera/foreign/foreign_family.hpp"
#include "tessera/plan/model/step_request.hpp"

namespace tessera::families {

// What the compiler needs of the model under a layout.
plan::ModelPlan model_plan(const spec::Model& model, const plan::StepShape& shape);
// What the step of a run is compiled from.
plan::StepRequest step_request(const spec::Run& run);

std::span<const foreign::ForeignFamily> foreign_families();
const foreign::ForeignFamily& foreign_family(spec::Family family);

}  // namespace tessera::families
