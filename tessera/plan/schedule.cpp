#include "tessera/plan/schedule.hpp"

#include "tessera/base/error.hpp"
#include "tessera/program/automatic.hpp"
#include "tessera/spec/words.hpp"

namespace tessera::plan {
namespace {

void need_virtual_stages(spec::Schedule name, std::uint32_t wanted, std::uint32_t found) {
  if (wanted != found)
    throw UserError(cat("schedule ", spec::word(name), " has ", wanted, " virtual stage",
                        wanted == 1 ? "" : "s", " per rank, not ", found, ": write virtual_stages = ", wanted,
                        wanted == 1 ? ", or take interleaved or bfs" : ""));
}

Scheduled zb_v_instead(const program::Pipeline& pipeline) {
  return {program::zero_bubble_v(pipeline),
          cat("zb-v runs: dualpipe-v needs at least ", 2 * pipeline.num_ranks,
              " micro-batches (two per rank), not ", pipeline.num_micro)};
}

}  // namespace

Scheduled schedule(spec::Schedule name, const program::Pipeline& pipeline, std::int64_t max_activations) {
  using spec::Schedule;
  switch (name) {
    case Schedule::gpipe:
      need_virtual_stages(name, 1, pipeline.num_virtual);
      return {program::gpipe(pipeline), ""};
    case Schedule::f1b1:
      need_virtual_stages(name, 1, pipeline.num_virtual);
      return {program::one_forward_one_backward(pipeline), ""};
    case Schedule::interleaved:
      return {program::interleaved(pipeline), ""};
    case Schedule::zb_h1:
      need_virtual_stages(name, 1, pipeline.num_virtual);
      return {program::zero_bubble_h1(pipeline), ""};
    case Schedule::zb_v:
      need_virtual_stages(name, 2, pipeline.num_virtual);
      return {program::zero_bubble_v(pipeline), ""};
    case Schedule::dualpipe_v:
      need_virtual_stages(name, 2, pipeline.num_virtual);
      if (pipeline.num_micro < 2 * static_cast<std::int32_t>(pipeline.num_ranks))
        return zb_v_instead(pipeline);
      return {program::dualpipe_v(pipeline), ""};
    case Schedule::bfs:
      return {program::breadth_first(pipeline), ""};
    case Schedule::automatic: {
      program::Found found = program::automatic(pipeline, {.activations = max_activations});
      return {std::move(found.order), cat("auto: ", found.winner)};
    }
    case Schedule::pipedream_2bw:
      break;
  }
  throw UserError(
      cat("schedule ", spec::word(name),
          " is no order of one step, and not implemented yet; there are gpipe, 1f1b, interleaved, zb-h1, "
          "zb-v, dualpipe-v, bfs and auto"));
}

}  // namespace tessera::plan
