#include "tessera/planner/search/answer.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"

namespace tessera::planner {
namespace {

constexpr double kGiB = 1 << 30;

// The parts in which it is slower than the best, the largest first.
std::string why(const Answer& answer, const Answer& best) {
  const auto own = parts(answer.refined.candidate.estimate), other = parts(best.refined.candidate.estimate);
  std::vector<std::pair<double, std::string>> slower;
  for (std::size_t i = 0; i < own.size(); ++i)
    if (const double more = own[i].seconds - other[i].seconds; more > 0.002 * best.step.seconds)
      slower.emplace_back(more, own[i].name);
  std::ranges::sort(slower, std::greater());
  std::string out = cat("+", fixed(100 * (answer.step.seconds / best.step.seconds - 1), 1), " %");
  for (std::size_t i = 0; i < std::min<std::size_t>(slower.size(), 2); ++i)
    out += cat(i == 0 ? ": " : ", ", slower[i].second, " +", fixed(slower[i].first, 2), " s");
  return out;
}

void add_run_length(Answer& answer, const Cluster& cluster, const spec::Run& run, double tokens) {
  const Workload& work = answer.refined.candidate.work;
  const double per_step = static_cast<double>(run.training.global_batch * run.model.sequence);
  const double step = answer.step.seconds;
  answer.tokens_per_second = per_step / step;
  double peak = 0;
  for (const NodeKind& kind : cluster.nodes)
    peak += kind.count * kind.device.node_devices * kind.device.tflops * 1e12;
  answer.mfu = model_flops(work) / (peak * step);
  answer.length = run_length(cluster, tokens, answer.tokens_per_second);
}

// What of the fastest layout is over the limit, and the cheapest change of it that fits.
std::string about_too_large(const Found& found, const Plan& plan) {
  if (!found.too_large) return "";
  const Candidate& large = *found.too_large;
  const Footprint& held = large.footprint;
  const bool by_activations = held.activations + held.logits > held.state;
  std::string out =
      cat("faster, but does not fit: ", layout_text(large.layout), " would take ",
          fixed(large.estimate.step, 2), " s; ", by_activations ? "activations" : "parameters and optimizer",
          " of stage ", held.stage, " are ", fixed((held.peak - plan.limit_bytes) / kGiB, 1), " GiB over");
  const auto same_mesh = [&](const Candidate& c) {
    return c.layout.pp == large.layout.pp && c.layout.tp == large.layout.tp &&
           c.layout.cp == large.layout.cp && c.layout.ep == large.layout.ep;
  };
  const auto fix = std::ranges::find_if(found.fitting, same_mesh);
  if (fix == found.fitting.end()) return out + "; no change of it that keeps its mesh is among the fastest";
  std::vector<std::string> changes;
  const auto own = layout_keys(fix->layout), before = layout_keys(large.layout);
  for (const std::string& key : own)
    if (std::ranges::find(before, key) == before.end()) changes.push_back(key);
  return out + cat("; the cheapest fix is ", changes.empty() ? layout_text(fix->layout) : join(changes, " "),
                   " (+", fixed(100 * (fix->estimate.step / large.estimate.step - 1), 1), " % time)");
}

double tokens_of(const spec::Run& run, const Ask& ask) {
  if (ask.tokens > 0) return ask.tokens;
  return static_cast<double>(run.training.steps) *
         static_cast<double>(run.training.global_batch * run.model.sequence);
}

// By a fitted profile, whose error was measured, the closed form and what runs like it were off; else the
// simulated step.
Answer answer_of(Refined refined, const spec::Run& run, const Cluster& cluster, const Fit& fit,
                 double tokens) {
  Answer out;
  MeasuredRun row;
  row.work = refined.candidate.work, row.device = cluster.slowest().device, row.network = cluster.network;
  const Prediction by_form = fit.predict(row);
  const double scale = fit.runs().empty() ? refined.seconds / by_form.seconds : 1;
  out.step = {by_form.seconds * scale, by_form.low * scale, by_form.high * scale};
  out.refined = std::move(refined);
  add_run_length(out, cluster, run, tokens);
  return out;
}

}  // namespace

Plan as_it_is(const spec::Run& given, const Cluster& cluster, const Fit& fit, const Ask& ask) {
  const double start = now_seconds();
  const spec::Run run = on_devices(given, cluster);
  Plan out{.cluster = cluster,
           .tokens = tokens_of(run, ask),
           .limit_bytes = usable_bytes(cluster.slowest().device),
           .is_fitted = !fit.runs().empty()};
  out.answers.push_back(answer_of(refine_one(run, cluster, fit.constants()), run, cluster, fit, out.tokens));
  out.certificate.considered = out.certificate.priced = out.certificate.simulated = 1;
  out.certificate.seconds = now_seconds() - start;
  return out;
}

Plan plan(const spec::Run& given, const Cluster& whole, const Fit& fit, const Ask& ask) {
  const double start = now_seconds();
  const spec::Run run = on_devices(given, whole);
  Plan out;
  out.cluster = whole;
  out.is_fitted = !fit.runs().empty();
  out.tokens = tokens_of(run, ask);
  if (ask.objective != Objective::time) {
    out.sizes = scaled(run, whole, fit.constants(), sizes_within(whole), out.tokens);
    out.cluster = sized(whole, best_size(out.sizes, ask.objective, ask.within_days, whole.devices()));
  }
  const Cluster& cluster = out.cluster;
  const double given_limit = static_cast<double>(run.layout.memory_limit_mib) * (1 << 20);
  out.limit_bytes = usable_bytes(cluster);
  if (given_limit > 0) out.limit_bytes = std::min(out.limit_bytes, given_limit);
  const Limits limits{.memory_bytes = out.limit_bytes, .keep = std::max<std::size_t>(64, 4 * ask.answers)};
  Found found = search(run, cluster, limits, fit.constants());
  out.certificate = found.certificate;
  if (found.fitting.empty())
    throw UserError(
        cat("no layout of this model fits ", cluster.devices(), " devices of ",
            fixed(out.limit_bytes / kGiB, 1), " GiB that tensors may take. ",
            found.too_large ? about_too_large(found, out) : "Take more devices, or a smaller batch.", "\n",
            certificate_text(out.certificate)));
  double over = 0;
  std::vector<Refined> chosen = refine(run, found, cluster, limits, fit.constants(), ask.answers, &over);
  // Where programs take more than the closed form says, layouts are looked for that leave as much room.
  constexpr int kSearches = 3;
  for (int i = 1; i < kSearches && chosen.size() < ask.answers && over > 0; ++i) {
    Limits tighter = limits;
    tighter.memory_bytes /= over;
    Found again = search(run, cluster, tighter, fit.constants());
    std::vector<Refined> others = refine(run, again, cluster, limits, fit.constants(), ask.answers, &over);
    if (others.size() < chosen.size()) continue;
    chosen = std::move(others);
    again.too_large = found.too_large;
    found = std::move(again);
    out.certificate = found.certificate;
  }
  for (Refined& refined : chosen)
    out.answers.push_back(answer_of(std::move(refined), run, cluster, fit, out.tokens));
  if (out.answers.empty())
    throw UserError(
        "of the fastest layouts by the closed form none compiles to a program that fits: give a lower "
        "layout.memory_limit_mib, or more devices.");
  std::ranges::sort(out.answers, {}, [](const Answer& answer) { return answer.step.seconds; });
  for (std::size_t i = 1; i < out.answers.size(); ++i)
    out.answers[i].why_it_loses = why(out.answers[i], out.answers.front());
  out.too_large = about_too_large(found, out);
  out.certificate.simulated = static_cast<std::int64_t>(out.answers.size());
  out.certificate.seconds = now_seconds() - start;
  return out;
}

spec::Run run_of(const spec::Run& run, const Answer& answer) {
  spec::Run out = run;
  out.layout = answer.refined.run.layout;
  return out;
}

}  // namespace tessera::planner
