// The stages of a model and their schedule: which units each pipeline rank computes, and in which order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/plan/model/step_request.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/schedule/order.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

struct Staged {
  program::Order order;
  program::Staging staging;  // in units; segments.hpp makes segments of them
  std::vector<std::uint32_t> rank_of_unit;
  std::string note;  // what the schedule had to do otherwise than asked for; often empty
};

// The seconds of each unit by which units are dealt to stages, at the simulator's usual rates.
std::vector<double> dealing_seconds(const spec::Layout& layout, const ModelPlan& model);

// Deals the model's units (embedding, blocks, head) to stages, by layout.stages or by cost, and orders
// them by layout.schedule or layout.schedule_file. Throws UserError for a list or file that does not fit the
// request.
Staged stage(const StepRequest& request);

}  // namespace tessera::plan
