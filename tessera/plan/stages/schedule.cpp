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
  const std::int64_t wanted = spec::required_virtual_stages(name);
  if (wanted != 0 && wanted != found)
    throw UserError(cat("schedule ", spec::word(name), " has ", wanted, " virtual stage",
                        wanted == 1 ? "" : "s", " per rank, not ", found, ": write virtual_stages = ", wanted,
                        wanted == 1 ? ", or take interleaved or bfs" : ""));
}

Scheduled zb_v_instead(const program::Pipeline& pipeline) {
  return {program::zero_bubble_v(pipeline),
          cat("zb-v runs: dualpipe-v needs at least ", 2 * pipeline.num_ranks,
              " micro-batches (two per rank), not ", pipeline.num_micro)};
}

Scheduled fixed(spec::Schedule name, const program::Pipeline& pipeline) {
  using spec::Schedule;
  switch (name) {
    case Schedule::gpipe:
      return {program::gpipe(pipeline), ""};
    case Schedule::f1b1:
    case Schedule::pipedream_2bw:  // which differs in the version of weights that a step computes with
      return {program::one_forward_one_backward(pipeline), ""};
    case Schedule::interleaved:
      return {program::interleaved(pipeline), ""};
    case Schedule::zb_h1:
      return {program::zero_bubble_h1(pipeline), ""};
    case Schedule::zb_v:
      return {program::zero_bubble_v(pipeline), ""};
    case Schedule::dualpipe_v:
      if (pipeline.num_micro < 2 * static_cast<std::int32_t>(pipeline.num_ranks))
        return zb_v_instead(pipeline);
      return {program::dualpipe_v(pipeline), ""};
    case Schedule::bfs:
      return {program::breadth_first(pipeline), ""};
    case Schedule::automatic:
      break;
  }
  throw Bug("auto is no fixed schedule");
}

}  // namespace

Scheduled schedule(spec::Schedule name, const program::Pipeline& pipeline, std::int64_t max_activations) {
  if (name == spec::Schedule::automatic) {
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
