#include "tessera/planner/search/deal.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/text.hpp"

namespace tessera::planner {
namespace {

// The slowest rank of each of `parts` equal runs of consecutive ranks.
std::vector<double> slowest_of_each(const std::vector<double>& speeds, std::int64_t parts) {
  const auto size = static_cast<std::ptrdiff_t>(speeds.size()) / parts;
  std::vector<double> out;
  for (std::int64_t i = 0; i < parts; ++i)
    out.push_back(*std::min_element(speeds.begin() + i * size, speeds.begin() + (i + 1) * size));
  return out;
}

// `count` things one by one to whoever would be through first; `had` is what each has already.
std::vector<std::int64_t> dealt(std::int64_t count, const std::vector<double>& speeds,
                                const std::vector<double>& had, std::int64_t least) {
  std::vector<std::int64_t> out(speeds.size(), least);
  for (count -= least * std::ssize(speeds); count > 0; --count) {
    std::size_t best = 0;
    const auto until = [&](std::size_t i) { return (static_cast<double>(out[i]) + 1 + had[i]) / speeds[i]; };
    for (std::size_t i = 1; i < speeds.size(); ++i)
      if (until(i) < until(best)) best = i;
    ++out[best];
  }
  return out;
}

std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> words;
  for (const std::int64_t number : numbers) words.push_back(cat(number));
  return join(words, ",");
}

std::vector<double> head_last(std::int64_t stages, double head) {
  std::vector<double> out(static_cast<std::size_t>(stages), 0);
  out.back() = head;
  return out;
}

}  // namespace

std::vector<double> speeds_of(const Cluster& cluster, const spec::Run& run, const Constants& constants) {
  if (!cluster.is_uneven()) return {};
  spec::Run plain = run;
  plain.layout = {.precision = run.layout.precision};
  const Workload work = workload_of(plain);
  const auto seconds = [&](const Device& device) {
    const Estimate e = estimate(work, device, network_of(device), constants);
    return e.products + e.attention + e.elementwise;
  };
  const double slowest = seconds(cluster.slowest().device);
  std::vector<double> out;
  for (const NodeKind& kind : cluster.nodes)
    out.insert(out.end(), static_cast<std::size_t>(kind.count * kind.device.node_devices),
               slowest / seconds(kind.device));
  return out;
}

void deal_by_speed(spec::Run& run, const std::vector<double>& speeds, double head) {
  spec::Layout& layout = run.layout;
  const std::int64_t batch = run.training.global_batch, blocks = run.model.blocks();
  layout.micro_batches_by_rank.clear(), layout.stages.clear();
  if (layout.pp == 1 && layout.dp() > 1 && batch % layout.micro_batch == 0) {
    const auto groups = slowest_of_each(speeds, layout.dp());
    layout.micro_batches_by_rank =
        list_text(dealt(batch / layout.micro_batch, groups, std::vector<double>(groups.size(), 0), 0));
  } else if (layout.pp > 1 && layout.num_virtual() == 1 && blocks >= layout.pp) {
    auto counts = dealt(blocks, slowest_of_each(speeds, layout.pp), head_last(layout.pp, head), 1);
    ++counts.front(), ++counts.back();  // embedding and head
    layout.stages = list_text(counts);
  }
}

double slowest_share(const spec::Layout& layout, const std::vector<double>& speeds, double head) {
  const auto longest = [&](const std::vector<double>& work, std::int64_t parts) {
    const auto groups = slowest_of_each(speeds, parts);
    double most = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) most = std::max(most, work[i] / groups[i]);
    return most / (std::accumulate(work.begin(), work.end(), 0.0) / static_cast<double>(parts));
  };
  if (const auto by_rank = layout.unequal_micro_batches(); !by_rank.empty())
    return longest({by_rank.begin(), by_rank.end()}, layout.dp());
  const auto stages = spec::split_numbers(layout.stages);
  if (layout.stages.empty() || !stages || std::ssize(*stages) != layout.pp || layout.pp < 2) return 1;
  std::vector<double> work(stages->begin(), stages->end());
  work.front() -= 1, work.back() += head - 1;
  return longest(work, layout.pp);
}

}  // namespace tessera::planner
