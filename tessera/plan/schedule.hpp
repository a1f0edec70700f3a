// By which order does a pipeline run? From the schedule's name in a run file to the order of its ranks' tasks.
#pragma once

#include <limits>
#include <string>

#include "tessera/program/schedules.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

struct Scheduled {
  program::Order order;  // of the pipeline's num_ranks * num_virtual stages
  std::string note;      // for people: what `auto` chose, or what runs instead; often empty
};

// max_activations: of a stage, held on any rank at a time; heeded by `auto`. Throws UserError if the schedule can't have
// so many virtual stages, or nothing holds so little.
Scheduled schedule(spec::Schedule name, const program::Pipeline& pipeline,
                   std::int64_t max_activations = std::numeric_limits<std::int64_t>::max());

}  // namespace tessera::plan
