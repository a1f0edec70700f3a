#include "tessera/planner/search/answer.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/planner/search/searched.hpp"

namespace tessera::planner {
namespace {

constexpr double kGiB = 1 << 30;

std::string seconds_text(const char* name, double seconds) {
  return cat(name, seconds < 0 ? " -" : " +", fixed(std::abs(seconds), 3), " s");
}

// The parts in which it differs from the best, the largest first, and what is left: they add up to the
// difference.
std::string why(const Answer& answer, const Answer& best) {
  const auto &own = answer.refined.parts, &other = best.refined.parts;
  std::vector<std::pair<double, const char*>> differ;
  for (std::size_t i = 0; i < own.size(); ++i)
    differ.emplace_back(own[i].seconds - other[i].seconds, own[i].name);
  std::ranges::sort(differ, std::greater(), [](const auto& part) { return std::abs(part.first); });
  double rest = answer.step.seconds - best.step.seconds;
  std::string out = cat("+", fixed(100 * (answer.step.seconds / best.step.seconds - 1), 1), " %, ",
                        seconds_text("that is", rest), ":");
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 0; i < std::min(differ.size(), kShown); ++i) {
    out += cat(i == 0 ? " " : ", ", seconds_text(differ[i].second, differ[i].first));
    rest -= differ[i].first;
  }
  return out + ", " + seconds_text("the rest", rest);
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
  std::string out = cat(
      "faster, but does not fit: ", layout_text(large.layout), " would take ", fixed(large.least_seconds, 2),
      " s or more; ", "its ranks would hold about ", fixed((large.bound_bytes - plan.limit_bytes) / kGiB, 1),
      " GiB more than there is, most of it ", by_activations ? "activations" : "parameters and optimizer");
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
                   " (+", fixed(100 * (fix->least_seconds / large.least_seconds - 1), 1), " % time)");
}

double tokens_of(const spec::Run& run, const Ask& ask) {
  if (ask.tokens > 0) return ask.tokens;
  return static_cast<double>(run.training.steps) *
         static_cast<double>(run.training.global_batch * run.model.sequence);
}

// The interval is that of the closed form, around the step.
Answer answer_of(Refined refined, const spec::Run& run, const Cluster& cluster, const Fit& fit,
                 double tokens) {
  Answer out;
  const Prediction by_form = fit.predict(measured_run(refined.candidate, cluster));
  const double scale = refined.seconds / by_form.seconds;
  out.step = {refined.seconds, by_form.low * scale, by_form.high * scale};
  out.refined = std::move(refined);
  add_run_length(out, cluster, run, tokens);
  return out;
}

[[noreturn]] void nothing_fits(const Searched& had, const spec::Run& run, const Ask& ask, const Plan& plan) {
  const std::string pinned = ask.pins.text(run);
  throw UserError(
      cat("no layout of this model", pinned.empty() ? "" : cat(" with ", pinned, ", which the search keeps,"),
          " fits ", plan.cluster.devices(), " devices of ", fixed(plan.limit_bytes / kGiB, 1),
          " GiB that tensors may take. ",
          had.found.too_large ? about_too_large(had.found, plan)
          : pinned.empty()    ? "Take more devices, or a smaller batch."
                              : "Leave some of these to the search, or take more devices or another batch.",
          "\n", certificate_text(had.found.certificate)));
}

// The best, and then others: of one mesh at most two in addition to the best's.
std::vector<Refined> nearest(std::vector<Refined> fitting, std::size_t count) {
  std::vector<Refined> out;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>> shown;
  for (Refined& one : fitting) {
    const spec::Layout& l = one.candidate.layout;
    const bool is_new = shown.insert({l.pp, l.tp, l.cp, l.ep, l.micro_batch}).second;
    if (out.size() < count && (is_new || out.size() < 3)) out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Plan as_it_is(const spec::Run& given, const Cluster& cluster, const Fit& fit, const Ask& ask) {
  const double start = now_seconds();
  const spec::Run run = on_devices(given, cluster);
  Plan out{.cluster = cluster,
           .tokens = tokens_of(run, ask),
           .limit_bytes = limit_of(run, cluster),
           .is_fitted = !fit.runs().empty(),
           .is_searched = false};
  out.answers.push_back(answer_of(refine_one(run, cluster, fit), run, cluster, fit, out.tokens));
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
  Searched had = ask.objective == Objective::time ? searched_time(run, whole, fit, ask, out)
                                                  : searched_sizes(run, whole, fit, ask, out);
  out.limit_bytes = limit_of(run, out.cluster);
  if (ask.objective == Objective::time) out.idle_devices = whole.devices() - out.cluster.devices();
  if (had.outcome.fitting.empty()) nothing_fits(had, run, ask, out);
  out.certificate = had.found.certificate;
  for (Refined& refined : nearest(std::move(had.outcome.fitting), ask.answers))
    out.answers.push_back(answer_of(std::move(refined), run, out.cluster, fit, out.tokens));
  for (std::size_t i = 1; i < out.answers.size(); ++i)
    out.answers[i].why_it_loses = why(out.answers[i], out.answers.front());
  out.too_large = about_too_large(had.found, out);
  out.certificate.seconds = now_seconds() - start;
  return out;
}

spec::Run run_of(const spec::Run& run, const Plan& plan, const Answer& answer) {
  spec::Run out = on_devices(run, plan.cluster);
  out.layout = answer.refined.run.layout;
  return out;
}

}  // namespace tessera::planner
