#include "tessera/planner/fit/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/planner/footprint.hpp"

namespace tessera::planner {
namespace {

constexpr double kGiB = 1 << 30;
// What a device's libraries take and what its allocator leaves unused, where no run told: fixed beforehand.
constexpr double kLibrariesGiB = 2.5, kUsableShare = 0.95;

// Equal for runs that differ in the number of devices alone.
auto layout_key(const MeasuredRun& run) {
  const Workload& w = run.work;
  return std::tuple(w.layers, w.hidden, w.sequence, w.tp, w.pp, w.cp, w.ep, w.virtual_stages, w.micro_batch,
                    w.recompute, w.sequence_parallel, w.order, w.fp8, w.zero, run.kernels, w.eager,
                    w.overlaps_tp);
}

double share_of_peak(const MeasuredRun& run) {
  const double peak = (run.work.fp8 == Fp8::none ? run.device.tflops : run.device.tflops_fp8) * 1e12;
  return model_flops(run.work) / (peak * run.work.devices);
}

struct Simple {
  double efficiency = 0.4;
  std::map<decltype(layout_key(MeasuredRun())), const MeasuredRun*> by_layout;

  explicit Simple(const std::vector<MeasuredRun>& fitted) {
    std::vector<double> seen;
    for (const MeasuredRun& run : fitted) seen.push_back(share_of_peak(run) / run.seconds);
    if (!seen.empty()) efficiency = median(seen);
    for (const MeasuredRun& run : fitted) by_layout.emplace(layout_key(run), &run);
  }
  double constant(const MeasuredRun& run) const { return share_of_peak(run) / efficiency; }
  double persistence(const MeasuredRun& run) const {
    const auto found = by_layout.find(layout_key(run));
    if (found == by_layout.end()) return constant(run);
    const Workload &now = run.work, &then = found->second->work;
    return found->second->seconds * (now.global_batch / now.dp) / (then.global_batch / then.dp);
  }
};

Errors errors_of(const std::vector<Compared>& compared, std::size_t layouts) {
  Errors out;
  out.rows = compared.size(), out.layouts = layouts;
  if (compared.empty()) return out;
  std::vector<double> sizes;
  for (const Compared& one : compared) {
    const double off = one.predicted.seconds / one.measured - 1;
    sizes.push_back(std::abs(off));
    out.bias += off;
    out.coverage_80 += one.predicted.low <= one.measured && one.measured <= one.predicted.high;
    out.baseline_constant += std::abs(one.by_constant / one.measured - 1);
    out.baseline_persistence += std::abs(one.by_persistence / one.measured - 1);
    out.mean_abs_error += std::abs(off);
  }
  const auto n = static_cast<double>(compared.size());
  for (double* sum :
       {&out.bias, &out.coverage_80, &out.baseline_constant, &out.baseline_persistence, &out.mean_abs_error})
    *sum /= n;
  out.median = median(sizes), out.p90 = quantile(sizes, 0.9), out.max = *std::ranges::max_element(sizes);
  return out;
}

// With the constant of the fitted runs, the median of what they held beyond the closed form.
MemoryErrors memory_errors(const std::vector<MeasuredRun>& runs, const std::set<std::string>& fitted) {
  MemoryErrors out;
  std::vector<double> beyond;
  for (const MeasuredRun& run : runs)
    if (run.memory_gb > 0 && fitted.contains(run.id))
      beyond.push_back(run.memory_gb - footprint(run.work).peak / kGiB);
  out.constant_gib = beyond.empty() ? kLibrariesGiB : std::max(0.0, median(beyond));
  double hits = 0, told = 0, were = 0;
  for (const MeasuredRun& run : runs) {
    const double predicted = footprint(run.work).peak / kGiB + out.constant_gib;
    if (run.memory_gb > 0 && !fitted.contains(run.id)) {
      out.mean_abs_error += std::abs(predicted / run.memory_gb - 1);
      ++out.rows;
    }
    ++out.limited;
    const bool is_over = predicted > kUsableShare * run.device.memory_gb * 1e9 / kGiB;
    hits += is_over && run.out_of_memory, told += is_over, were += run.out_of_memory;
  }
  if (out.rows > 0) out.mean_abs_error /= static_cast<double>(out.rows);
  out.precision = told > 0 ? hits / told : 1, out.recall = were > 0 ? hits / were : 1;
  if (were == 0) out.limited = 0;
  return out;
}

StackEvaluation evaluate_stack(const std::string& stack, const std::vector<MeasuredRun>& runs,
                               std::size_t calibrate, std::uint64_t seed) {
  StackEvaluation out;
  out.stack = stack;
  std::vector<MeasuredRun> usable, timed;
  for (const MeasuredRun& run : runs)
    if (run.unusable.empty()) usable.push_back(run);
  out.unusable = runs.size() - usable.size();
  for (const MeasuredRun& run : usable)
    if (run.seconds > 0) timed.push_back(run);
  std::vector<MeasuredRun> fitted;
  for (const std::size_t i : runs_to_measure(timed, std::min(calibrate, timed.size() / 2), seed))
    fitted.push_back(timed[i]);
  std::set<std::string> names;
  for (const MeasuredRun& run : fitted) names.insert(run.id), out.fitted_to.push_back(run.id);
  const Simple simple(fitted);
  const Fit fit(fitted);
  std::set<decltype(layout_key(MeasuredRun()))> layouts;
  for (const MeasuredRun& run : timed) {
    if (names.contains(run.id)) continue;
    layouts.insert(layout_key(run));
    out.compared.push_back({run.id, run.seconds, fit.predict(run), simple.constant(run),
                            simple.persistence(run), run.work.devices});
  }
  out.errors = errors_of(out.compared, layouts.size());
  out.memory = memory_errors(usable, names);
  return out;
}

std::map<std::string, std::vector<MeasuredRun>> by_stack(const std::vector<MeasuredRun>& runs) {
  std::map<std::string, std::vector<MeasuredRun>> out;
  for (const MeasuredRun& run : runs) out[run.stack].push_back(run);
  return out;
}

// The usual guidelines: no recomputation, the newest kernels, as little model parallelism as ran, tensor
// parallelism before pipelines, then the largest micro-batch.
auto by_guidelines(const MeasuredRun& run) {
  const Workload& w = run.work;
  return std::tuple(w.recompute, w.attention, !w.fused_norms, w.tp * w.pp, w.pp, -w.micro_batch);
}

std::string layout_text(const MeasuredRun& run) {
  const Workload& w = run.work;
  return cat("tp ", w.tp, ", pp ", w.pp, ", dp ", w.dp, ", micro-batch ", w.micro_batch,
             w.recompute == Recomputed::none ? "" : ", recomputing",
             w.sequence_parallel ? ", sequence parallel" : "");
}

}  // namespace

Evaluation evaluate(const std::vector<MeasuredRun>& runs, std::size_t calibrate, std::uint64_t seed) {
  Evaluation out;
  std::vector<Compared> all, large;
  std::map<std::string, std::vector<Compared>> families;
  std::size_t layouts = 0;
  for (const auto& [stack, of_stack] : by_stack(runs)) {
    out.stacks.push_back(evaluate_stack(stack, of_stack, calibrate, seed));
    const StackEvaluation& last = out.stacks.back();
    layouts += last.errors.layouts;
    const std::string& device = of_stack.front().device.name;
    const std::string family = device.substr(0, device.find('-'));
    for (const Compared& one : last.compared) {
      all.push_back(one);
      if (one.devices >= 512) large.push_back(one);
      families[family].push_back(one);
    }
  }
  out.all = errors_of(all, layouts);
  out.large = errors_of(large, 0);
  for (const auto& [family, compared] : families) out.families[family] = errors_of(compared, 0);
  return out;
}

std::vector<Choice> choices(const std::vector<MeasuredRun>& runs) {
  constexpr std::size_t kFewest = 5;  // layouts to choose among
  std::vector<Choice> out;
  for (const auto& [stack, of_stack] : by_stack(runs)) {
    using Group = std::tuple<double, double, double, double>;
    std::map<Group, std::vector<MeasuredRun>> groups;
    for (const MeasuredRun& run : of_stack)
      if (run.unusable.empty() && run.seconds > 0)
        groups[{run.work.layers, run.work.hidden, run.work.sequence, run.work.devices}].push_back(run);
    std::map<std::pair<double, double>, Fit> fits;
    for (const auto& [key, group] : groups) {
      if (group.size() < kFewest) continue;
      const std::pair model{std::get<0>(key), std::get<1>(key)};
      if (!fits.contains(model)) {
        std::vector<MeasuredRun> others;
        for (const auto& [other, members] : groups)
          if (std::pair(std::get<0>(other), std::get<1>(other)) != model)
            others.insert(others.end(), members.begin(), members.end());
        fits.emplace(model, Fit(std::move(others)));
      }
      const Fit& fit = fits.at(model);
      const auto seconds = [](const MeasuredRun& run) { return run.seconds; };
      const MeasuredRun& best = *std::ranges::min_element(group, {}, seconds);
      const MeasuredRun& chosen = *std::ranges::min_element(
          group, {}, [&](const MeasuredRun& run) { return fit.predict(run).seconds; });
      const MeasuredRun& rule = *std::ranges::min_element(group, {}, by_guidelines);
      Choice choice{cat(stack, ": ", model.first, " layers of ", model.second, ", ", std::get<2>(key),
                        " tokens, ", std::get<3>(key), " devices"),
                    layout_text(chosen), layout_text(best), layout_text(rule), group.size()};
      choice.regret = chosen.seconds / best.seconds - 1;
      choice.rule_regret = rule.seconds / best.seconds - 1;
      for (const MeasuredRun& run : group)
        choice.mean_regret += (run.seconds / best.seconds - 1) / static_cast<double>(group.size());
      out.push_back(std::move(choice));
    }
  }
  return out;
}

}  // namespace tessera::planner
