#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/number.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tessera/cli/plan/plan_commands.hpp"
#include "tessera/cli/plan/plan_page.hpp"
#include "tessera/cli/plan/this_machine.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/planner/fit/stack_profile.hpp"
#include "tessera/planner/search/answer.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::cli {
namespace {

spec::Run question_of(const PlanOptions& options) {
  if (options.file.empty())
    throw UserError(
        "plan takes a run file, or one of the commands memory, what-if, evaluate, calibrate. See tessera "
        "plan --help.");
  if (!options.cluster.empty() && options.machine > 0)
    throw UserError(
        "plan takes --cluster or --machine, not both: the devices described, or those of this machine");
  if (options.cluster.empty() && options.machine == 0)
    throw UserError(
        "plan needs devices: --cluster FILE, --cluster with a known device and how many, such as "
        "H100-80GB-SXM:64, or --machine 2 for two ranks on this machine");
  spec::Run run = spec::load(options.file, options.overrides, checkpoint::described);
  if (options.as_it_is) {
    spec::validate(run, spec::any_build());
    return run;
  }
  // The layout is what is looked for: of what is given of it by hand, the search says whether it can be.
  spec::Run without = run;
  without.layout = {.precision = run.layout.precision};
  spec::validate(without, spec::any_build());
  return run;
}

// Progress of a search that may take a minute, on a terminal.
void show_progress(std::int64_t simulated, double best, double least) {
  std::string text = cat(simulated, " layouts simulated");
  if (best < std::numeric_limits<double>::infinity())
    text += cat(", the best takes ", fixed(best, 3), " s a step, no other less than ",
                fixed(std::min(best, least), 3));
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

planner::Cluster cluster_of(const PlanOptions& options, const spec::Run& run) {
  return options.machine > 0 ? this_machine(options.machine, run.layout.precision)
                             : planner::read_cluster(options.cluster);
}

planner::Fit fit_of(const PlanOptions& options) {
  if (options.stack.empty()) return planner::Fit();
  return planner::fit_of(planner::parse_profile(file_text(options.stack), options.stack));
}

metrics::Record to_record(const planner::Answer& answer, double limit_bytes) {
  const planner::Refined& refined = answer.refined;
  metrics::Record parts;
  for (const planner::Part& part : refined.parts) parts.push_back({part.name, part.seconds});
  return {{"layout", planner::layout_text(refined.candidate.layout)},
          {"keys", planner::layout_keys(refined.candidate.layout)},
          {"step_seconds", answer.step.seconds},
          {"step_seconds_low", answer.step.low},
          {"step_seconds_high", answer.step.high},
          {"mfu", answer.mfu},
          {"peak_bytes", refined.peak_bytes},
          {"limit_bytes", limit_bytes},
          {"bubble", refined.bubble},
          {"exposed", refined.exposed},
          {"tokens_per_second", answer.tokens_per_second},
          {"days", answer.length.days},
          {"dollars", answer.length.dollars},
          {"lost_to_failures", answer.length.lost_to_failures},
          {"why_it_loses", answer.why_it_loses},
          {"fits", refined.most_bytes() <= limit_bytes},
          {"parts", parts}};
}

metrics::Record to_record(const planner::Plan& plan) {
  metrics::Record pruned;
  for (const auto& [why, count] : plan.certificate.pruned) pruned.push_back({why, count});
  std::vector<metrics::Record> answers;
  for (const planner::Answer& answer : plan.answers) answers.push_back(to_record(answer, plan.limit_bytes));
  std::vector<metrics::Record> sizes;
  for (const planner::Scaled& one : plan.sizes)
    sizes.push_back({{"devices", one.devices},
                     {"simulated", one.is_simulated},
                     {"step_seconds", one.step_seconds},
                     {"days", one.length.days},
                     {"dollars", one.length.dollars},
                     {"device_hours", one.device_hours()},
                     {"layout", one.layout}});
  return {{"cluster", plan.cluster.name},
          {"devices", plan.cluster.devices()},
          {"tokens", plan.tokens},
          {"considered", plan.certificate.considered},
          {"pruned", plan.certificate.num_pruned()},
          {"pruned_by", pruned},
          {"priced", plan.certificate.priced},
          {"too_large", plan.certificate.too_large},
          {"simulated", plan.certificate.simulated},
          {"gap", plan.certificate.gap},
          {"seconds", plan.certificate.seconds},
          {"fitted", plan.is_fitted},
          {"does_not_fit", plan.too_large},
          {"best", to_record(plan.answers.front(), plan.limit_bytes)},
          {"answers", answers},
          {"sizes", sizes}};
}

planner::Ask ask_of(const PlanOptions& options) {
  planner::Ask out{.tokens = options.tokens, .answers = options.answers, .within_days = options.within_days};
  out.pins = planner::Pins(options.overrides);
  if (isatty(STDERR_FILENO)) out.progress = show_progress;
  if (options.objective == "cost") out.objective = planner::Objective::cost;
  if (options.objective == "devices") out.objective = planner::Objective::devices;
  const bool takes_all = out.objective == planner::Objective::time;
  if (takes_all && out.within_days > 0)
    throw UserError("--within-days is for --objective cost or devices: time takes all devices in any case.");
  if (!takes_all && options.as_it_is)
    throw UserError(cat("--objective ", options.objective, " chooses among layouts; --as-it-is has one."));
  return out;
}

// "x2" is twice what there is.
double changed(double value, const std::string& text, const std::string& change) {
  const bool is_factor = text.starts_with('x');
  const double number = required_number(cat("--with ", change, ":"), text.substr(is_factor),
                                        {.least = 0, .most = 1e12, .open_least = true});
  return is_factor ? value * number : number;
}

struct Changed {
  planner::Cluster cluster;
  std::vector<std::string> overrides;
};

Changed with_change(const planner::Cluster& cluster, const std::string& change) {
  const auto equals = change.find('=');
  if (equals == std::string::npos) throw UserError(cat("--with ", change, ": wants NAME=VALUE."));
  const std::string name = change.substr(0, equals), value = change.substr(equals + 1);
  Changed out{cluster, {}};
  if (name.find('.') != std::string::npos) {
    out.overrides.push_back(change);
    return out;
  }
  if (name == "devices") {
    const double devices = changed(cluster.devices(), value, change);
    for (auto& kind : out.cluster.nodes)
      planner::set_devices(kind, kind.count * kind.device.node_devices * devices / cluster.devices(),
                           cat("--with ", change, ", ", kind.name));
    planner::join_nodes(out.cluster);
    return out;
  }
  for (auto& kind : out.cluster.nodes) {
    planner::Device& device = kind.device;
    if (name == "device")
      device = planner::known_device(value);
    else if (name == "link_gbps")
      device.link_gbps = changed(device.link_gbps, value, change);
    else if (name == "network_gbps")
      device.network_gbps = changed(device.network_gbps, value, change);
    else if (name == "memory_gb")
      device.memory_gb = changed(device.memory_gb, value, change);
    else if (name == "memory_gbps")
      device.memory_gbps = changed(device.memory_gbps, value, change);
    else if (name == "tflops")
      device.tflops = changed(device.tflops, value, change);
    else
      throw UserError(cat(
          "--with ", change,
          ": may change device, devices, tflops, memory_gb, memory_gbps, link_gbps, network_gbps, or a key "
          "of the run file such as model.sequence."));
  }
  planner::join_nodes(out.cluster);
  return out;
}

}  // namespace

int plan_command(const PlanOptions& options) {
  const spec::Run run = question_of(options);
  const planner::Cluster cluster = cluster_of(options, run);
  const planner::Fit fit = fit_of(options);
  const planner::Ask ask = ask_of(options);
  const planner::Plan plan =
      options.as_it_is ? planner::as_it_is(run, cluster, fit, ask) : planner::plan(run, cluster, fit, ask);
  if (ask.progress) std::fputs("\r\033[K", stderr);
  if (!options.write.empty())
    metrics::OutFile(options.write, "--write")
        .write(spec::to_short_text(planner::run_of(run, plan, plan.answers.front())));
  if (!options.html.empty())
    metrics::OutFile(options.html, "--html").write(plan_page(run, plan, fit.constants(), options.file));
  std::fputs(
      (options.json ? metrics::json_object(to_record(plan)) + "\n" : planner::to_text(plan, options.explain))
          .c_str(),
      stdout);
  return 0;
}

int what_if_command(const PlanOptions& options) {
  const spec::Run run = question_of(options);
  const planner::Cluster cluster = cluster_of(options, run);
  const planner::Fit fit = fit_of(options);
  const planner::Ask ask = ask_of(options);
  const planner::Plan before = planner::plan(run, cluster, fit, ask);
  std::vector<std::vector<std::string>> rows = {
      {"change", "step s", "tokens/s", "times", "MFU %", "days", "layout"}};
  std::vector<metrics::Record> records;
  const auto add = [&](const std::string& name, const planner::Plan& plan) {
    const planner::Answer &best = plan.answers.front(), &base = before.answers.front();
    const double times = best.tokens_per_second / base.tokens_per_second;
    rows.push_back({name, fixed(best.step.seconds, 3), count_text(best.tokens_per_second), fixed(times, 3),
                    fixed(100 * best.mfu, 1), fixed(best.length.days, 2),
                    planner::layout_text(best.refined.candidate.layout)});
    records.push_back({{"change", name}, {"times", times}, {"plan", to_record(plan)}});
  };
  add("as it is", before);
  for (const std::string& change : options.with) {
    const Changed now = with_change(cluster, change);
    PlanOptions asked = options;
    asked.overrides.insert(asked.overrides.end(), now.overrides.begin(), now.overrides.end());
    add(change, planner::plan(question_of(asked), now.cluster, fit, ask_of(asked)));
  }
  std::fputs((options.json ? metrics::json_object(metrics::Record{{"changes", records}}) + "\n" : table(rows))
                 .c_str(),
             stdout);
  return 0;
}

}  // namespace tessera::cli
