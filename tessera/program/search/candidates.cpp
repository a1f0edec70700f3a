#include "tessera/program/search/candidates.hpp"

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/program/schedule/registry.hpp"

namespace tessera::program {
namespace {

// Every stage becomes `width` neighbouring ones that run one after the other.
std::vector<std::uint32_t> widened(const std::vector<std::uint32_t>& rank_of_stage, std::uint32_t width) {
  std::vector<std::uint32_t> out;
  for (const std::uint32_t rank : rank_of_stage) out.insert(out.end(), width, rank);
  return out;
}

Order widened(const Order& order, std::uint32_t width) {
  Order out{order.num_micro, widened(order.rank_of_stage, width), {}};
  for (const auto& tasks : order.ranks) {
    auto& wide = out.ranks.emplace_back();
    wide.reserve(tasks.size() * width);
    for (const Task& task : tasks)
      for (std::uint32_t i = 0; i < width; ++i) {
        const std::uint32_t part = task.what == OpKind::forward ? i : width - 1 - i;
        wide.push_back({task.what, task.stage * width + part, task.micro});
      }
  }
  return out;
}

}  // namespace

std::string word(const Placed& placed) {
  if (placed.pipeline.num_virtual == 1) return "one stage per rank";
  const char* const shape = placed.shape == Shape::blocked  ? "side by side"
                            : placed.shape == Shape::looped ? "in loops"
                                                            : "in a V";
  return cat(placed.pipeline.num_virtual, " stages per rank ", shape);
}

std::vector<Placed> placements(const Pipeline& pipeline) {
  const std::uint32_t num_ranks = pipeline.num_ranks, num_virtual = pipeline.num_virtual;
  std::vector<Placed> out;
  if (num_virtual > 1) out.push_back({Shape::blocked, widened(looped(num_ranks, 1), num_virtual), pipeline});
  out.push_back({Shape::looped, looped(num_ranks, num_virtual), pipeline});
  if (num_virtual % 2 == 0) out.push_back({Shape::vee, widened(vee(num_ranks), num_virtual / 2), pipeline});
  return out;
}

std::vector<NamedOrder> fixed_orders(const Placed& placed) {
  const Pipeline& pipeline = placed.pipeline;
  std::vector<NamedOrder> out;
  const std::uint32_t made_for = placed.shape == Shape::vee                                  ? 2
                                 : placed.shape == Shape::looped && pipeline.num_virtual > 1 ? 0
                                                                                             : 1;
  for (const ScheduleEntry& entry : kSchedules) {
    const bool has_enough_micro = std::int64_t{pipeline.num_micro} >=
                                  std::int64_t{entry.traits.least_micro_per_rank} * pipeline.num_ranks;
    if (entry.traits.is_search || entry.traits.is_delayed || entry.num_virtual != made_for ||
        !has_enough_micro)
      continue;
    const std::uint32_t num_virtual = made_for == 0 ? pipeline.num_virtual : made_for;
    const Order narrow = entry.order({pipeline.num_ranks, num_virtual, pipeline.num_micro, {}});
    out.push_back({std::string(entry.name), widened(narrow, pipeline.num_virtual / num_virtual)});
  }
  // Of equals the first is taken: rather one that holds less.
  std::ranges::stable_sort(out, {}, [](const NamedOrder& named) {
    return kSchedules[*schedule_index(named.name)].traits.holds_all;
  });
  return out;
}

}  // namespace tessera::program
