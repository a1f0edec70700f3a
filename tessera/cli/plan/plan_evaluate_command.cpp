#include <algorithm>
#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/cli/plan/plan_commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/planner/fit/evaluate.hpp"
#include "tessera/planner/fit/stack_profile.hpp"

namespace tessera::cli {
namespace {

using planner::Errors;

std::string percent(double share) { return fixed(100 * share, 1); }

metrics::Record to_record(const Errors& e) {
  return {{"rows", static_cast<std::int64_t>(e.rows)},
          {"layouts", static_cast<std::int64_t>(e.layouts)},
          {"mean_abs_error", e.mean_abs_error},
          {"median", e.median},
          {"p90", e.p90},
          {"max", e.max},
          {"bias", e.bias},
          {"coverage_80", e.coverage_80},
          {"baseline_constant", e.baseline_constant},
          {"baseline_persistence", e.baseline_persistence}};
}

metrics::Record to_record(const planner::Compared& one) {
  return {{"id", one.id},
          {"measured", one.measured},
          {"predicted", one.predicted.seconds},
          {"low", one.predicted.low},
          {"high", one.predicted.high},
          {"by_constant", one.by_constant},
          {"by_persistence", one.by_persistence}};
}

metrics::Record to_record(const planner::StackEvaluation& stack, bool with_rows) {
  metrics::Record out = to_record(stack.errors);
  out.push_back({"fitted_to", stack.fitted_to});
  out.push_back({"unusable", static_cast<std::int64_t>(stack.unusable)});
  out.push_back({"memory_rows", static_cast<std::int64_t>(stack.memory.rows)});
  out.push_back({"memory_mean_abs_error", stack.memory.mean_abs_error});
  out.push_back({"memory_constant_gib", stack.memory.constant_gib});
  out.push_back({"out_of_memory_rows", static_cast<std::int64_t>(stack.memory.limited)});
  out.push_back({"out_of_memory_precision", stack.memory.precision});
  out.push_back({"out_of_memory_recall", stack.memory.recall});
  if (with_rows) {
    std::vector<metrics::Record> rows;
    for (const planner::Compared& one : stack.compared) rows.push_back(to_record(one));
    out.push_back({"compared", rows});
  }
  return out;
}

std::vector<std::string> cells(const std::string& name, const Errors& e) {
  return {name,
          cat(e.rows),
          cat(e.layouts),
          percent(e.mean_abs_error),
          percent(e.median),
          percent(e.p90),
          percent(e.max),
          percent(e.bias),
          percent(e.coverage_80),
          percent(e.baseline_constant),
          percent(e.baseline_persistence)};
}

std::string to_text(const planner::Evaluation& evaluation, const PlanOptions& options) {
  std::vector<std::vector<std::string>> rows = {{"stack", "rows", "layouts", "mean %", "median %", "p90 %",
                                                 "max %", "bias %", "in interval %", "constant %",
                                                 "persistence %"}};
  std::vector<std::vector<std::string>> memory = {
      {"stack", "with a peak", "mean %", "libraries GiB", "say if they fit", "precision", "recall"}};
  std::size_t unusable = 0;
  for (const auto& stack : evaluation.stacks) {
    unusable += stack.unusable;
    if (stack.errors.rows > 0) rows.push_back(cells(stack.stack, stack.errors));
    const auto& m = stack.memory;
    if (m.rows > 0 || m.limited > 0)
      memory.push_back({stack.stack, cat(m.rows), m.rows > 0 ? percent(m.mean_abs_error) : "-",
                        fixed(m.constant_gib, 1), cat(m.limited), m.limited > 0 ? fixed(m.precision, 3) : "-",
                        m.limited > 0 ? fixed(m.recall, 3) : "-"});
  }
  if (evaluation.families.size() > 1)
    for (const auto& [family, errors] : evaluation.families)
      rows.push_back(cells(cat("all of ", family), errors));
  rows.push_back(cells("all", evaluation.all));
  if (evaluation.large.rows > 0) rows.push_back(cells("512 devices or more", evaluation.large));
  std::string out = cat("step times, each stack fitted to at most ", options.calibrate,
                        " of its runs and compared on the others\n\n", table(rows));
  if (memory.size() > 1) out += cat("\nmemory, by the closed form\n\n", table(memory));
  if (unusable > 0) out += cat("\n", unusable, " run(s) say too little of themselves to be predicted\n");
  if (options.rows) {
    std::vector<std::vector<std::string>> each = {
        {"run", "measured s", "predicted s", "from", "to", "off %"}};
    for (const auto& stack : evaluation.stacks)
      for (const planner::Compared& one : stack.compared)
        each.push_back({one.id, fixed(one.measured, 3), fixed(one.predicted.seconds, 3),
                        fixed(one.predicted.low, 3), fixed(one.predicted.high, 3),
                        percent(one.predicted.seconds / one.measured - 1)});
    out += "\n" + table(each);
  }
  return out;
}

std::string to_text(const std::vector<planner::Choice>& choices) {
  std::vector<std::vector<std::string>> rows = {
      {"model", "layouts", "chosen", "slower than the best %", "guidelines %", "any %"}};
  double sum = 0, worst = 0, rule = 0, any = 0;
  for (const auto& c : choices) {
    rows.push_back({c.group, cat(c.layouts), c.chosen, percent(c.regret), percent(c.rule_regret),
                    percent(c.mean_regret)});
    sum += c.regret, worst = std::max(worst, c.regret), rule += c.rule_regret, any += c.mean_regret;
  }
  const auto n = static_cast<double>(choices.size());
  return cat("\nwhat would have been chosen, fitted to the other models of the stack\n\n", table(rows),
             "mean ", percent(sum / n), " %, worst ", percent(worst), " %; by guidelines ", percent(rule / n),
             " %, any layout ", percent(any / n), " %\n");
}

}  // namespace

int plan_evaluate_command(const PlanOptions& options) {
  const auto runs = planner::read_runs(file_text(options.file), options.file);
  const auto evaluation = planner::evaluate(runs, options.calibrate, options.seed);
  const auto chosen = options.choice ? planner::choices(runs) : std::vector<planner::Choice>();
  if (options.json) {
    metrics::Record stacks, families;
    for (const auto& [family, errors] : evaluation.families) families.push_back({family, to_record(errors)});
    for (const auto& stack : evaluation.stacks)
      stacks.push_back({stack.stack, to_record(stack, options.rows)});
    metrics::Record out = {{"calibrate", static_cast<std::int64_t>(options.calibrate)},
                           {"stacks", stacks},
                           {"all", to_record(evaluation.all)},
                           {"large", to_record(evaluation.large)},
                           {"families", families}};
    std::vector<metrics::Record> list;
    for (const auto& c : chosen)
      list.push_back({{"group", c.group},
                      {"layouts", static_cast<std::int64_t>(c.layouts)},
                      {"chosen", c.chosen},
                      {"best", c.best},
                      {"regret", c.regret},
                      {"rule_regret", c.rule_regret},
                      {"mean_regret", c.mean_regret}});
    if (options.choice) out.push_back({"choices", list});
    std::puts(metrics::json_object(out).c_str());
  } else {
    std::fputs(to_text(evaluation, options).c_str(), stdout);
    if (options.choice) std::fputs(to_text(chosen).c_str(), stdout);
  }
  return 0;
}

int plan_calibrate_command(const PlanOptions& options) {
  const auto all = planner::read_runs(file_text(options.file), options.file);
  std::vector<std::string> names;
  std::vector<planner::MeasuredRun> runs;
  for (const auto& run : all) {
    if (std::ranges::find(names, run.stack) == names.end()) names.push_back(run.stack);
    if (run.stack == options.stack || (options.stack.empty() && names.size() == 1))
      if (run.unusable.empty() && run.seconds > 0) runs.push_back(run);
  }
  if (options.stack.empty() && names.size() > 1)
    throw UserError(
        cat(options.file, " has several stacks: name one with --stack: ", join(names, ", "), "."));
  if (runs.empty())
    throw UserError(cat("--stack ", options.stack, ": ", options.file, " has no such stack with usable times",
                        did_you_mean(nearest(options.stack, names)), " It has ", join(names, ", "), "."));
  planner::StackProfile profile{.stack = runs.front().stack,
                                .columns = planner::first_line(file_text(options.file))};
  const std::size_t count = options.calibrate == 0 ? runs.size() : options.calibrate;
  for (const std::size_t i : planner::runs_to_measure(runs, count, options.seed))
    profile.records.push_back(runs[i].record);
  const std::string json = planner::to_json(profile);
  if (options.out.empty())
    std::fputs(json.c_str(), stdout);
  else
    metrics::OutFile(options.out, "--out").write(json);
  return 0;
}

}  // namespace tessera::cli
