#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/program/automatic.hpp"
#include "tessera/program/walk_order.hpp"

namespace tessera::program {
namespace {

// Every stage becomes `width` neighbouring ones that run one after the other.
Order widened(const Order& order, std::uint32_t width) {
  Order out{order.num_micro, {}, {}};
  for (const std::uint32_t rank : order.rank_of_stage)
    out.rank_of_stage.insert(out.rank_of_stage.end(), width, rank);
  for (const auto& tasks : order.ranks) {
    auto& wide = out.ranks.emplace_back();
    for (const Task& task : tasks)
      for (std::uint32_t i = 0; i < width; ++i) {
        const std::uint32_t part = task.what == What::forward ? i : width - 1 - i;
        wide.push_back({task.what, task.stage * width + part, task.micro});
      }
  }
  return out;
}

}  // namespace

std::vector<Found> fixed_candidates(const Pipeline& pipeline) {
  std::vector<Found> out;
  const auto add = [&](const char* name, Order (*order)(const Pipeline&), std::uint32_t num_virtual) {
    const Order narrow = order({pipeline.num_ranks, num_virtual, pipeline.num_micro, {}});
    Order wide = widened(narrow, pipeline.num_virtual / num_virtual);
    const double makespan = walk(wide, pipeline.costs).makespan;
    out.push_back({std::move(wide), name, makespan});
  };
  add("1f1b", one_forward_one_backward, 1);
  add("gpipe", gpipe, 1);
  add("zb-h1", zero_bubble_h1, 1);
  if (pipeline.num_virtual > 1) {
    add("interleaved", interleaved, pipeline.num_virtual);
    add("bfs", breadth_first, pipeline.num_virtual);
  }
  if (pipeline.num_virtual % 2 == 0) {
    add("zb-v", zero_bubble_v, 2);
    if (pipeline.num_micro >= 2 * static_cast<std::int32_t>(pipeline.num_ranks))
      add("dualpipe-v", dualpipe_v, 2);
  }
  return out;
}

}  // namespace tessera::program
