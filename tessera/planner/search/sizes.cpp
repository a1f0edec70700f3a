#include "tessera/planner/search/sizes.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::planner {
namespace {

bool is_on_front(const Scaled& one, const std::vector<Scaled>& sizes) {
  return std::ranges::none_of(sizes, [&](const Scaled& other) {
    return other.length.days < one.length.days && other.cost() < one.cost();
  });
}

}  // namespace

spec::Run on_devices(spec::Run run, const Cluster& cluster) {
  if (run.layout.servers > 0)
    throw UserError(cat("layout.servers = ", run.layout.servers,
                        " is not planned for a cluster. tessera simulate and plan memory know servers."));
  const bool is_gpu = cluster.slowest().device.multiprocessors > 1;
  if (is_gpu) run.cluster.transport = spec::Transport::nccl;
  return run;
}

std::vector<Scaled> scaled(const spec::Run& run, const Cluster& cluster, const Constants& constants,
                           const std::vector<double>& devices, double tokens, const Pins& pins) {
  std::vector<Scaled> out;
  const auto per_step = static_cast<double>(run.training.global_batch * run.model.sequence);
  for (const double count : devices) {
    const Cluster part = sized(cluster, count);
    const Limits limits{
        .memory_bytes = usable_bytes(part), .keep = 1, .by_form = part.is_uneven(), .pins = pins};
    const Found found = search(on_devices(run, part), part, limits, constants);
    if (found.fitting.empty()) continue;
    const Candidate& best = found.fitting.front();
    const double speed = per_step / best.least_seconds;
    out.push_back(
        {false, count, best.least_seconds, speed, run_length(part, tokens, speed), layout_text(best.layout)});
  }
  return out;
}

std::vector<double> sizes_within(const Cluster& cluster) {
  const double node = cluster.nodes.front().device.node_devices, all = cluster.devices();
  std::vector<double> out;
  for (double part = 1; part < std::min(node, all); part *= 2) out.push_back(part);
  for (double nodes = 1; nodes * node < all; nodes *= 2) {
    out.push_back(nodes * node);
    if (nodes > 1 && 1.5 * nodes * node < all) out.push_back(1.5 * nodes * node);
  }
  out.push_back(all);
  return out;
}

double best_size(const std::vector<Scaled>& sizes, Objective objective, double days, double most_devices) {
  if (sizes.empty())
    throw UserError(cat("no layout of this model fits up to ", most_devices,
                        " of these devices. Take more, or devices with more memory."));
  const Scaled* best = nullptr;
  for (const Scaled& one : sizes) {
    if (days > 0 && one.length.days > days) continue;
    const bool is_better =
        !best || (objective == Objective::cost ? one.cost() < best->cost() : one.devices < best->devices);
    if (is_better) best = &one;
  }
  if (!best) {
    const auto& fastest = *std::ranges::min_element(sizes, {}, [](const Scaled& s) { return s.length.days; });
    throw UserError(cat("up to ", most_devices, " of these devices do not train it in ", days,
                        " days: the fastest, ", fastest.devices, " of them, takes ",
                        fixed(fastest.length.days, 1), ". Take more devices, or more days."));
  }
  return best->devices;
}

std::string to_text(const std::vector<Scaled>& sizes, double chosen) {
  const bool has_price = !sizes.empty() && sizes.front().length.dollars > 0;
  std::vector<std::vector<std::string>> rows = {
      {"devices", "step s", "days", has_price ? "dollars" : "device hours", "", "found by", "layout"}};
  for (const Scaled& one : sizes)
    rows.push_back({cat(one.devices), fixed(one.step_seconds, 3), fixed(one.length.days, 2),
                    count_text(one.cost()),
                    one.devices == chosen     ? "chosen"
                    : is_on_front(one, sizes) ? "on the front"
                                              : "",
                    one.is_simulated ? "simulation" : "bound", one.layout});
  return table(rows);
}

}  // namespace tessera::planner
