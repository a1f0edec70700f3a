#include "tessera/planner/search/answer.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::planner {
namespace {

constexpr double kGiB = 1 << 30;

struct Part {
  const char* name;
  double seconds;
};

std::vector<Part> parts(const Estimate& e) {
  return {{"products", e.products},
          {"attention", e.attention},
          {"element-wise work", e.elementwise},
          {"head and loss", e.head},
          {"recomputation", e.recompute},
          {"tensor parallelism's collectives", e.tensor},
          {"context parallelism's exchanges", e.context},
          {"exchanges of experts", e.experts},
          {"pipeline bubble", e.bubble},
          {"sends between stages", e.sends},
          {"reductions and gathers of data parallelism", e.data},
          {"optimizer", e.optimizer}};
}

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
  const double failures_per_hour = cluster.devices() / cluster.failure_hours;
  const double lost_hours = (cluster.restart_minutes + cluster.checkpoint_minutes / 2) / 60;
  answer.lost_to_failures = 1 - 1 / (1 + failures_per_hour * lost_hours);
  const double hours = tokens / answer.tokens_per_second / 3600 / (1 - answer.lost_to_failures);
  answer.days = hours / 24;
  answer.dollars = hours * cluster.devices() * cluster.dollars_per_hour();
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

spec::Run on_devices(spec::Run run, const Cluster& cluster) {
  const bool is_gpu = cluster.slowest().device.multiprocessors > 1;
  if (is_gpu) run.cluster.transport = spec::Transport::nccl;
  return run;
}

}  // namespace

std::vector<std::string> layout_keys(const spec::Layout& layout) {
  const spec::Layout none;
  std::vector<std::string> out;
  const auto add = [&](const char* key, std::int64_t own, std::int64_t usual) {
    if (own != usual) out.push_back(cat("layout.", key, "=", own));
  };
  add("pp", layout.pp, 1), add("dp_replicate", layout.dp_replicate, 1), add("dp_shard", layout.dp_shard, 1);
  add("cp", layout.cp, 1), add("tp", layout.tp, 1), add("ep", layout.ep, 1), add("zero", layout.zero, 0);
  if (layout.tp_kind != none.tp_kind) out.push_back(cat("layout.tp_kind=", spec::word(layout.tp_kind)));
  if (layout.tp_overlap) out.push_back("layout.tp_overlap=true");
  if (layout.pp > 1) out.push_back(cat("layout.schedule=", spec::word(layout.schedule)));
  add("virtual_stages", layout.virtual_stages, 0);
  add("micro_batch", layout.micro_batch, 1);
  if (layout.recompute != none.recompute)
    out.push_back(cat("layout.recompute=", spec::word(layout.recompute)));
  if (!layout.offload.empty()) out.push_back(cat("layout.offload=", layout.offload));
  if (!layout.stages.empty()) out.push_back(cat("layout.stages=", layout.stages));
  if (!layout.micro_batches_by_rank.empty())
    out.push_back(cat("layout.micro_batches_by_rank=", layout.micro_batches_by_rank));
  return out;
}

std::string layout_text(const spec::Layout& layout) {
  std::string out = cat("pp ", layout.pp, ", tp ", layout.tp);
  if (layout.tp_kind != spec::TensorKind::d1) out += cat(" (", spec::word(layout.tp_kind), ")");
  if (layout.cp > 1) out += cat(", cp ", layout.cp);
  if (layout.ep > 1) out += cat(", ep ", layout.ep);
  out += cat(", dp ", layout.dp());
  if (layout.zero > 0)
    out += layout.dp_replicate > 1 ? cat(", zero ", layout.zero, " over ", layout.dp_shard)
                                   : cat(", zero ", layout.zero);
  if (layout.pp > 1) {
    out += cat(", ", spec::word(layout.schedule));
    if (layout.virtual_stages > 1) out += cat(" x ", layout.virtual_stages);
  }
  out += cat(", micro-batch ", layout.micro_batch);
  if (layout.recompute != spec::Recompute::none) out += cat(", recompute ", spec::word(layout.recompute));
  if (layout.tp_overlap) out += ", tp overlapped";
  if (!layout.offload.empty()) out += cat(", offload ", layout.offload);
  constexpr std::size_t kShort = 24;  // of a list that is told
  if (!layout.stages.empty())
    out += layout.stages.size() < kShort ? cat(", stages ", layout.stages) : ", stages by speed";
  if (!layout.micro_batches_by_rank.empty())
    out += layout.micro_batches_by_rank.size() < kShort
               ? cat(", micro-batches ", layout.micro_batches_by_rank)
               : ", micro-batches by speed";
  return out;
}

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

Plan plan(const spec::Run& given, const Cluster& cluster, const Fit& fit, const Ask& ask) {
  const double start = now_seconds();
  const spec::Run run = on_devices(given, cluster);
  Plan out;
  out.cluster = cluster;
  out.is_fitted = !fit.runs().empty();
  out.tokens = tokens_of(run, ask);
  const double given_limit = static_cast<double>(run.layout.memory_limit_mib) * (1 << 20);
  double least = 1e300;
  for (const NodeKind& kind : cluster.nodes) least = std::min(least, usable_bytes(kind.device));
  out.limit_bytes = given_limit > 0 ? std::min(given_limit, least) : least;
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

std::vector<Scaled> scaled(const spec::Run& run, const Cluster& cluster, const Constants& constants,
                           const std::vector<double>& devices) {
  std::vector<Scaled> out;
  for (const double count : devices) {
    Cluster sized = cluster;
    NodeKind& kind = sized.nodes.front();
    sized.nodes.resize(1);
    kind.device.node_devices = std::min(kind.device.node_devices, count);
    kind.count = count / kind.device.node_devices;
    const Limits limits{.memory_bytes = usable_bytes(kind.device), .keep = 1};
    const Found found = search(on_devices(run, sized), sized, limits, constants);
    if (found.fitting.empty()) continue;
    const Candidate& best = found.fitting.front();
    const double step = best.estimate.step;
    out.push_back({count, step, static_cast<double>(run.training.global_batch * run.model.sequence) / step,
                   step / 3600 * count * cluster.dollars_per_hour(), layout_text(best.layout)});
  }
  return out;
}

std::string certificate_text(const Certificate& c) {
  std::string out =
      cat(count_text(static_cast<double>(c.considered)),
          " layouts considered: ", count_text(static_cast<double>(c.priced)), " priced by the closed form, ",
          count_text(static_cast<double>(c.num_pruned())), " left without");
  std::vector<std::string> reasons;
  for (const auto& [why, count] : c.pruned)
    reasons.push_back(cat(why, " ", count_text(static_cast<double>(count))));
  if (!reasons.empty()) out += cat(" (", join(reasons, ", "), ")");
  return out + cat(", ", count_text(static_cast<double>(c.too_large)), " did not fit, ", c.simulated,
                   " compiled and simulated, in ", fixed(c.seconds, 1), " s");
}

std::string to_text(const Plan& plan, bool explain) {
  const Answer& best = plan.answers.front();
  std::string out = cat("best of ", plan.cluster.name, ", ", plan.cluster.devices(),
                        " devices: ", layout_text(best.refined.candidate.layout), "\n",
                        plan.is_fitted ? "times by a fitted stack profile"
                                       : "times by data sheets alone (--stack profile.json makes them surer)",
                        "; intervals hold four of five\n\n");
  const bool has_price = best.dollars > 0;
  std::vector<std::vector<std::string>> rows = {
      {"layout", "step s", "from", "to", "MFU %", "GiB", "of", "bubble %", "exposed %", "tokens/s", "days"}};
  if (has_price) rows[0].push_back("dollars");
  for (const Answer& answer : plan.answers) {
    const Refined& refined = answer.refined;
    rows.push_back({layout_text(refined.candidate.layout), fixed(answer.step.seconds, 3),
                    fixed(answer.step.low, 3), fixed(answer.step.high, 3), fixed(100 * answer.mfu, 1),
                    fixed(refined.most_bytes() / kGiB, 1), fixed(plan.limit_bytes / kGiB, 1),
                    fixed(100 * refined.bubble, 1), fixed(100 * refined.exposed, 1),
                    count_text(answer.tokens_per_second), fixed(answer.days, 2)});
    if (has_price) rows.back().push_back(count_text(answer.dollars));
  }
  out += table(rows) + "\n";
  for (std::size_t i = 1; i < plan.answers.size(); ++i)
    out += cat(layout_text(plan.answers[i].refined.candidate.layout), " loses ", plan.answers[i].why_it_loses,
               "\n");
  if (!plan.too_large.empty()) out += cat("\n", plan.too_large, "\n");
  out += cat("\n", certificate_text(plan.certificate), "\n");
  out += cat("failures cost ", fixed(100 * best.lost_to_failures, 1), " % of the time (one in ",
             fixed(plan.cluster.failure_hours / plan.cluster.devices(), 1), " hours on all devices)\n");
  if (explain) {
    out += "\nwhere the time of the best goes, by the closed form:\n";
    std::vector<std::vector<std::string>> shares = {{"part", "seconds", "%"}};
    const Estimate& e = best.refined.candidate.estimate;
    for (const Part& part : parts(e))
      if (part.seconds > 0)
        shares.push_back({part.name, fixed(part.seconds, 3), fixed(100 * part.seconds / e.step, 1)});
    out += table(shares);
  }
  return out + cat("\nrun it with: ", join(layout_keys(best.refined.candidate.layout), " "), "\n");
}

}  // namespace tessera::planner
