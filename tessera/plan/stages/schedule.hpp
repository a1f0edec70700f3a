// Makes the order of a pipeline's tasks from the schedule's name in a run file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/program/search/automatic.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

struct Scheduled {
  program::Order order;  // of the pipeline's num_ranks * num_virtual stages
  std::string note;      // for people: what `auto` chose, or what runs instead; often empty
};

// max_activations: of a stage, held on any rank at a time; 0: no limit. Throws UserError if the schedule
// can't have so many virtual stages, or holds more; `auto` only if nothing holds so little.
Scheduled schedule(spec::Schedule name, const program::Pipeline& pipeline, std::int64_t max_activations = 0);

// The fastest order found on one of the placements, by the simulation of a bare chain of their stages;
// max_activations as in program::Limits, 0: no limit. Throws UserError if nothing holds so little.
program::Found automatic(std::span<const program::Placed> placed, std::int64_t max_activations);

// Throws UserError, about `name`, if the order holds more. 0: no limit.
void hold_to_limit(const program::Order& order, std::int64_t max_activations, const std::string& name);

}  // namespace tessera::plan
