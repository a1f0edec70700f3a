#include "tessera/program/schedule/order.hpp"

#include <algorithm>

#include "tessera/base/text.hpp"

namespace tessera::program {

std::string word(const Task& task) { return cat(task.stage, info(task.what).letter, task.micro); }

Order forwards_of(const Order& order) {
  Order out = order;
  for (auto& tasks : out.ranks) {
    std::erase_if(tasks, [](const Task& task) { return task.what != OpKind::forward; });
    // As if a stage took one unit of time: then the tasks of all ranks come in the order of the time at which
    // they can begin. Of two at once the later stage goes first, so that less is held.
    std::ranges::stable_sort(tasks, [](const Task& a, const Task& b) {
      const std::int64_t a_time = std::int64_t{a.stage} + a.micro, b_time = std::int64_t{b.stage} + b.micro;
      return a_time != b_time ? a_time < b_time : a.stage > b.stage;
    });
  }
  return out;
}

Costs even_costs(std::uint32_t num_ranks, std::uint32_t num_virtual, const StageCost& of_rank,
                 double transfer) {
  const StageCost stage{of_rank.forward / num_virtual, of_rank.input / num_virtual,
                        of_rank.weight / num_virtual};
  return {std::vector<StageCost>(std::size_t{num_ranks} * num_virtual, stage), transfer};
}

double seconds_of(const Task& task, const Costs& costs) {
  const StageCost& cost = costs.stages[task.stage];
  if (task.what == OpKind::forward) return cost.forward;
  if (task.what == OpKind::backward_input) return cost.input;
  if (task.what == OpKind::backward_weight) return cost.weight;
  return cost.input + cost.weight;
}

std::vector<std::int64_t> peak_activations(const Order& order) {
  std::vector<std::int64_t> out;
  for (const auto& tasks : order.ranks) {
    std::int64_t held = 0, peak = 0;
    for (const Task& task : tasks) {
      if (task.what == OpKind::forward) peak = std::max(peak, ++held);
      if (task.what == OpKind::backward || task.what == OpKind::backward_weight) --held;
    }
    out.push_back(peak);
  }
  return out;
}

}  // namespace tessera::program
