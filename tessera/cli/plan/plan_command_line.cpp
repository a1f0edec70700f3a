#include <CLI/CLI.hpp>

#include "tessera/base/number.hpp"
#include "tessera/cli/plan/plan_commands.hpp"

namespace tessera::cli {
namespace {

void add_json(CLI::App* command, PlanOptions& options) {
  command->add_flag("--json", options.json, "print one JSON object (docs/json.md)");
}

// A number above 0.
CLI::Option* add_number(CLI::App* command, const std::string& name, double& value, double most,
                        const char* about) {
  const Range range{.least = 0, .most = most, .open_least = true};
  return command->add_option_function<std::string>(
      name, [=, &value](const std::string& text) { value = required_number(name, text, range); }, about);
}

void add_question(CLI::App* command, PlanOptions& options) {
  command->add_option("file", options.file, "the run file (TOML); its [layout] is what is looked for");
  command->add_option("overrides", options.overrides,
                      "section.key=value: model.sequence=8192, training.global_batch=512, ...; the search "
                      "keeps the keys of [layout] that are given here");
  command
      ->add_option("--cluster", options.cluster,
                   "the devices: a file (docs/planner.md), or a known device and how many: H100-80GB-SXM:64")
      ->type_name("FILE");
  command
      ->add_option("--machine", options.machine,
                   "so many ranks of this machine, measured for a second, instead of --cluster")
      ->check(CLI::Range(1, 4096))
      ->type_name("RANKS");
  command
      ->add_option(
          "--stack", options.stack,
          "a profile of tessera plan calibrate or tessera bench profile (default: data sheets alone)")
      ->type_name("FILE");
  add_number(command, "--tokens", options.tokens, 1e18,
             "to train on, such as 2T or 15e12 (default: what training.steps makes)")
      ->type_name("NUMBER");
  command
      ->add_option("--answers", options.answers,
                   "layouts that are printed, the best first; the search is the same")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option(
          "--objective", options.objective,
          "time: the fastest layout of all devices; cost: as many of them as are cheapest; devices: as "
          "few as do")
      ->check(CLI::IsMember({"time", "cost", "devices"}))
      ->capture_default_str();
  add_number(command, "--within-days", options.within_days, 1e6, "cost, devices: how long the run may take")
      ->type_name("DAYS");
  add_json(command, options);
}

void add_table(CLI::App* command, PlanOptions& options) {
  command->add_option("file", options.file, "a table of measured runs (CSV, docs/planner.md)")->required();
  command->add_option("--seed", options.seed, "decides among runs that say equally much")
      ->capture_default_str();
}

}  // namespace

void add_plan_commands(CLI::App& plan, PlanOptions& options) {
  add_question(&plan, options);
  plan.add_flag("--explain", options.explain, "say where the time of the best goes");
  plan.add_flag("--as-it-is", options.as_it_is, "the layout of the run file alone, instead of a search");
  plan.add_option("--write", options.write, "write the run file with the best layout, which train takes")
      ->type_name("FILE");
  plan.add_option("--html", options.html, "write a report: tables, timeline, memory, scaling and cost")
      ->type_name("FILE");
  auto* what_if = plan.add_subcommand("what-if", "change one thing, and say what it would bring");
  add_question(what_if, options);
  what_if
      ->add_option("--with", options.with,
                   "link_gbps=x2, network_gbps=100, device=H200-141GB-SXM, devices=512, or a key of the run "
                   "file; may be "
                   "given again")
      ->type_name("CHANGE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->required();
  what_if->callback([&options] { options.command = what_if_command; });
  auto* evaluate =
      plan.add_subcommand("evaluate", "compare what is predicted with runs that somebody measured");
  add_table(evaluate, options);
  evaluate
      ->add_option("--calibrate", options.calibrate,
                   "runs of a stack that it is fitted to; 0: data sheets alone")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  evaluate->add_flag("--rows", options.rows, "each run besides");
  evaluate->add_flag("--choice", options.choice,
                     "which layout would have been chosen, where a table has several");
  add_json(evaluate, options);
  evaluate->callback([&options] { options.command = plan_evaluate_command; });
  auto* calibrate = plan.add_subcommand("calibrate", "fit a stack profile to measured runs");
  add_table(calibrate, options);
  calibrate->add_option("--stack", options.stack, "of the table: sc21/A100-80GB-SXM (default: the only one)")
      ->type_name("NAME");
  calibrate->add_option("--runs", options.calibrate, "to fit to; 0: all")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  calibrate->add_option("-o,--out", options.out, "the profile (default: printed)")->type_name("FILE");
  calibrate->callback([&options] { options.command = plan_calibrate_command; });
}

void add_bench_profile(CLI::App& bench, PlanOptions& options) {
  auto* profile = bench.add_subcommand(
      "profile", "a stack profile of this machine, from ten short runs of a model on one and two ranks");
  profile->add_option("file", options.file, "the run file (TOML) whose model is measured")->required();
  profile->add_option("overrides", options.overrides, "section.key=value, over what the file says");
  profile
      ->add_option("-o,--out", options.out,
                   "writes OUT.json, for --stack, and OUT.toml, for --cluster (default: machine)")
      ->type_name("OUT");
  profile->callback([&options] { options.command = bench_profile_command; });
}

}  // namespace tessera::cli
