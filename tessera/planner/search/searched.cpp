#include "tessera/planner/search/searched.hpp"

#include <algorithm>
#include <map>

namespace tessera::planner {

double limit_of(const spec::Run& run, const Cluster& cluster) {
  const double given = static_cast<double>(run.layout.memory_limit_mib) * (1 << 20);
  return given > 0 ? std::min(usable_bytes(cluster), given) : usable_bytes(cluster);
}

namespace {

Searched searched(const spec::Run& run, const Cluster& cluster, const Fit& fit, const Ask& ask) {
  // Where programs take more than their bounds say, layouts are looked for that leave as much room.
  constexpr double kRooms[] = {1, 0.8, 0.6};
  Limits limits{
      .memory_bytes = limit_of(run, cluster), .by_form = is_by_form(cluster, fit), .pins = ask.pins};
  limits.keep = std::max(limits.keep, 4 * ask.effort.least);
  const double limit = limits.memory_bytes;
  constexpr std::size_t kMostKept = 8192;
  Searched out;
  for (std::size_t i = 0; i < std::size(kRooms);) {
    limits.memory_bytes = kRooms[i] * limit;
    out.found = search(run, cluster, limits, fit.constants());
    limits.memory_bytes = limit;
    out.outcome = best_first(run, out.found, cluster, limits, fit, ask.effort, ask.progress);
    if (!out.outcome.ran_out) break;
    if (out.outcome.fitting.empty()) {
      ++i;
    } else if (out.outcome.gap > 0 && limits.keep < kMostKept) {
      limits.keep *= 4;  // one of those that were not kept could be the best
    } else {
      break;
    }
  }
  out.found.certificate.simulated = out.outcome.simulated;
  out.found.certificate.gap = out.outcome.gap;
  return out;
}

}  // namespace

// The number of devices that is best by the objective: those that could be are simulated one by one, until
// the best of all is one that was.
Searched searched_sizes(const spec::Run& run, const Cluster& whole, const Fit& fit, const Ask& ask,
                        Plan& out) {
  out.sizes = scaled(run, whole, fit.constants(), sizes_within(whole), out.tokens, ask.pins);
  std::map<double, Searched> simulated;
  for (;;) {
    const double devices = best_size(out.sizes, ask.objective, ask.within_days, whole.devices());
    out.cluster = sized(whole, devices);
    if (const auto found = simulated.find(devices); found != simulated.end()) return std::move(found->second);
    Searched one = searched(on_devices(run, out.cluster), out.cluster, fit, ask);
    const auto row = std::ranges::find(out.sizes, devices, &Scaled::devices);
    if (one.outcome.fitting.empty()) {
      out.sizes.erase(row);
      continue;
    }
    const Refined& best = one.outcome.fitting.front();
    const double speed = static_cast<double>(run.training.global_batch * run.model.sequence) / best.seconds;
    *row = {true,
            devices,
            best.seconds,
            speed,
            run_length(out.cluster, out.tokens, speed),
            layout_text(best.candidate.layout)};
    simulated.emplace(devices, std::move(one));
  }
}

// On all devices or, where they share the model or the batch badly, on fewer: those that could be faster by
// their bound are simulated too.
Searched searched_time(const spec::Run& run, const Cluster& whole, const Fit& fit, const Ask& ask,
                       Plan& out) {
  Searched best = searched(run, whole, fit, ask);
  constexpr double kShareOfPeak = 0.72;  // no products reach more
  std::vector<double> fewer = sizes_within(whole);
  std::ranges::reverse(fewer);
  for (const double devices : fewer) {
    const bool has_any = !best.outcome.fitting.empty();
    const double seconds = has_any ? best.outcome.fitting.front().seconds : 0;
    const double peak = whole.slowest().device.tflops * 1e12 * kShareOfPeak;
    if (devices == whole.devices() || whole.is_uneven()) continue;
    if (has_any && model_flops(workload_of(run)) / (devices * peak) >= seconds) break;
    const auto bound = scaled(run, whole, fit.constants(), {devices}, out.tokens, ask.pins);
    if (bound.empty() || (has_any && bound.front().step_seconds >= seconds)) continue;
    const Cluster part = sized(whole, devices);
    Searched one = searched(on_devices(run, part), part, fit, ask);
    if (one.outcome.fitting.empty() || (has_any && one.outcome.fitting.front().seconds >= seconds)) continue;
    best = std::move(one), out.cluster = part;
  }
  return best;
}

}  // namespace tessera::planner
