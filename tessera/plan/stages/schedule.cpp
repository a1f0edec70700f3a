#include "tessera/plan/stages/schedule.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/program/passes/chain.hpp"
#include "tessera/simulate/costs.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::plan {
namespace {

void need_virtual_stages(spec::Schedule name, std::uint32_t found) {
  const std::int64_t wanted = spec::entry(name).num_virtual;
  if (wanted != 0 && wanted != found)
    throw UserError(cat("schedule ", spec::word(name), " has ", wanted, " virtual stage",
                        wanted == 1 ? "" : "s", " per rank, not ", found, ": write virtual_stages = ", wanted,
                        wanted == 1 ? cat(", or take another: ", spec::schedules_of(0)) : ""));
}

Scheduled fixed(spec::Schedule name, const program::Pipeline& pipeline) {
  const program::ScheduleEntry& entry = spec::entry(name);
  const std::int64_t least = std::int64_t{entry.traits.least_micro_per_rank} * pipeline.num_ranks;
  if (pipeline.num_micro >= least) return {entry.order(pipeline), ""};
  const std::string_view instead = entry.traits.instead;
  return {program::kSchedules[*program::schedule_index(instead)].order(pipeline),
          cat(instead, " runs: ", entry.name, " needs at least ", least, " micro-batches (",
              entry.traits.least_micro_per_rank, " per rank), not ", pipeline.num_micro)};
}

}  // namespace

Scheduled schedule(spec::Schedule name, const program::Pipeline& pipeline, std::int64_t max_activations) {
  if (spec::entry(name).traits.is_search) {
    program::Found found = automatic(program::placements(pipeline), max_activations);
    return {std::move(found.order), cat("auto: ", found.winner)};
  }
  need_virtual_stages(name, pipeline.num_virtual);
  Scheduled out = fixed(name, pipeline);
  hold_to_limit(out.order, max_activations, cat("schedule ", spec::word(name)));
  return out;
}

program::Found automatic(std::span<const program::Placed> placed, std::int64_t max_activations) {
  program::Limits limits;
  if (max_activations > 0) limits.activations = max_activations;
  // The links of a rank are shared by what it sends, which the search leaves out of account.
  return program::automatic(placed, limits, [](const program::Order& order, const program::Placed& on) {
    const program::Program program = program::chain(order, on.pipeline.costs);
    return simulate::simulate(program, simulate::table_costs(program)).makespan;
  });
}

void hold_to_limit(const program::Order& order, std::int64_t max_activations, const std::string& name) {
  const std::int64_t held = std::ranges::max(program::peak_activations(order));
  if (max_activations > 0 && held > max_activations)
    throw UserError(cat(name, " holds ", held, " activations of a stage on a rank, more than the limit of ",
                        max_activations,
                        " (layout.max_activations, --memory-limit): take schedule auto, or a larger limit"));
}

}  // namespace tessera::plan
