#include "tessera/cli/commands/simulated.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/families/families.hpp"
#include "tessera/metrics/expert_loads.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/expert_loads.hpp"
#include "tessera/plan/model/step_request.hpp"
#include "tessera/plan/stages/schedule.hpp"
#include "tessera/plan/stages/staging.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/passes/chain.hpp"
#include "tessera/program/schedule/order_csv.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/train/trace/traced_ops.hpp"

namespace tessera::cli {
namespace {

spec::Schedule schedule_of(const std::string& word) {
  const auto& words = spec::words<spec::Schedule>();
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<spec::Schedule>(found - words.begin());
  throw UserError(cat("--schedule ", word, ": there is no such schedule", did_you_mean(nearest(word, words)),
                      " There are ", join(words, ", "), "."));
}

// A rank's stages share its costs evenly.
program::Costs priced(const std::vector<double>& costs, const std::vector<std::uint32_t>& rank_of_stage) {
  program::Costs out{{}, costs.size() > 3 ? costs[3] : 0};
  for (const std::uint32_t rank : rank_of_stage) {
    const auto share = static_cast<double>(std::ranges::count(rank_of_stage, rank));
    out.stages.push_back({costs[0] / share, costs[1] / share, costs[2] / share});
  }
  return out;
}

// The order as a program on a bare chain of stages.
void put_on_chain(Simulated& out, const program::Order& order, const SimulateOptions& options) {
  const auto& costs = options.costs;
  const auto priced_stages = priced(costs, order.rank_of_stage);
  out.costs_text = cat("forward ", costs[0], ", input ", costs[1], ", weight ", costs[2],
                       " per rank, transfer ", priced_stages.transfer);
  out.program = program::chain(order, priced_stages);
  const auto problems = program::check(out.program);
  TESSERA_CHECK(problems.empty(), "the program of this schedule is wrong:\n", program::to_text(problems));
  out.costs = simulate::table_costs(out.program);
}

// A schedule by itself.
Simulated bare_schedule(const SimulateOptions& options) {
  Simulated out;
  out.name = options.schedule;
  out.layout.schedule = schedule_of(options.schedule);
  out.layout.pp = options.stages;
  out.layout.virtual_stages = options.num_virtual;
  out.layout.virtual_stages = out.layout.num_virtual();
  out.num_micro = options.micro_batches;
  const auto num_ranks = static_cast<std::uint32_t>(options.stages);
  const auto num_virtual = static_cast<std::uint32_t>(out.layout.virtual_stages);
  constexpr std::int64_t kMostTasks = 1 << 24;
  if (std::int64_t{num_ranks} * num_virtual * options.micro_batches > kMostTasks)
    throw UserError(
        cat("--stages x --virtual x --micro-batches is more than ", kMostTasks, ": too large to simulate"));
  const program::Pipeline pipeline{num_ranks, num_virtual, options.micro_batches,
                                   priced(options.costs, program::looped(num_ranks, num_virtual))};
  const auto scheduled = plan::schedule(out.layout.schedule, pipeline, options.memory_limit);
  out.note = scheduled.note;
  put_on_chain(out, scheduled.order, options);
  return out;
}

// A schedule that somebody wrote, as PyTorch's compute-only files are.
Simulated written_schedule(const SimulateOptions& options) {
  const program::Order order = program::parse_order_csv(file_text(options.schedule));
  plan::hold_to_limit(order, options.memory_limit, options.schedule);
  Simulated out;
  out.name = std::filesystem::path(options.schedule).filename().string();
  out.layout.pp = static_cast<std::int64_t>(order.ranks.size());
  out.layout.virtual_stages =
      static_cast<std::int64_t>((order.rank_of_stage.size() + order.ranks.size() - 1) / order.ranks.size());
  out.num_micro = order.num_micro;
  if (order.rank_of_stage.size() % order.ranks.size() != 0)
    out.note = "Ranks have unequal numbers of stages; those of a rank share its costs evenly.";
  put_on_chain(out, order, options);
  return out;
}

simulate::Rates rates_of(const spec::Run& run, const std::vector<double>& given) {
  if (given.empty()) return plan::rates_of(run.cluster);
  for (std::size_t i = 0; i < 3; ++i)
    if (given[i] == 0) throw UserError("--rates: only the microseconds of a message may be 0");
  return {given[0] * 1e12, given[1] * 1e9, given[2] * 1e9, given[3] * 1e-6};
}

constexpr std::string_view kRunMark = "#| ";

// The run that stands in the marked lines of a program file.
spec::Run run_in(const std::string& text, const Options& options) {
  std::string toml;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kRunMark)) toml += line.substr(kRunMark.size()) + "\n";
  if (toml.empty())
    throw UserError(cat(options.file, " has no run in it (lines that begin with \"", kRunMark,
                        "\"). Write it with: tessera draw run.toml -o program.txt"));
  return spec::parse(toml, options.file, options.overrides);
}

program::Program program_in(const std::string& text, const std::string& path, const program::Tables& tables) {
  program::Program out = program::parse(text, tables);
  const auto problems = program::check(out);
  if (!problems.empty())
    throw UserError(cat(path, ": the ops don't make a step:\n", program::to_text(problems)));
  return out;
}

// By block: the busiest rank's share of the tokens over an even one, in the mean of all steps of the file.
std::vector<double> loads_in(const std::string& path, const spec::Run& run) {
  std::vector<double> sums(static_cast<std::size_t>(run.model.blocks()), 0);
  double steps = 0;
  metrics::read_expert_loads(path, [&](const metrics::StepLoads& step) {
    const std::int64_t expected = run.model.blocks() - run.model.dense_layers;
    if (std::ssize(step.layers) != expected || std::ssize(step.layers.front().tokens) != run.model.experts)
      throw UserError(cat("--loads ", path, " has ", step.layers.front().tokens.size(), " experts in ",
                          step.layers.size(), " layers, and the model of this run has ", run.model.experts,
                          " in ", expected, "."));
    for (const metrics::ExpertLoad& load : step.layers)
      sums.at(static_cast<std::size_t>(load.layer)) += plan::busiest_share(load.tokens, run.layout.ep);
    ++steps;
  });
  for (double& sum : sums) sum = sum > 0 ? sum / steps : 1;
  return sums;
}

Simulated run_of_file(const Options& options) {
  const bool is_program = options.file.ends_with(".txt");
  const std::string text = is_program ? file_text(options.file) : "";
  const spec::Run run = is_program ? run_in(text, options) : job::load_run(options, spec::any_build());
  const plan::StepRequest request = families::step_request(run);
  Simulated out;
  out.run = run;
  out.layout = run.layout;
  out.layout.virtual_stages =
      static_cast<std::int64_t>(plan::stage(request).order.rank_of_stage.size()) / run.layout.pp;
  out.num_micro = run.num_micro_batches();
  out.is_in_seconds = true;
  out.name = spec::schedule_name(run.layout);
  out.program = plan::compile(request, &out.note);
  if (is_program)
    out.program = program_in(text, options.file, out.program.tables);
  else if (spec::traits(run.cluster.transport).uses_gpus)
    plan::place_in_slots(out.program);
  const program::Tables& tables = out.program.tables;
  if (const auto& traces = options.simulate.costs_from; !traces.empty()) {
    const simulate::Profile profile = train::read_profile(traces);
    out.costs_text = cat("measured, from ", join(traces, ", "));
    out.costs = simulate::costs_by(
        out.program, [&](std::uint32_t, const program::Op& op) { return profile.cost(op, tables); });
    return out;
  }
  const auto& given = options.simulate.rates;
  const simulate::Rates rates = rates_of(run, given);
  out.costs_text = cat(given.empty() ? "by assumed rates: " : "by rates: ", fixed(rates.flops / 1e12, 3),
                       " TFLOP/s, memory ", rates.memory_bytes / 1e9, " GB/s, link ", rates.link_bytes / 1e9,
                       " GB/s, message ", std::round(rates.link_seconds * 1e9) / 1e3, " us");
  program::Tables priced = tables;
  if (!options.simulate.loads.empty()) {
    if (run.model.experts == 0)
      throw UserError("--loads is for models with experts, and model.experts of this run is 0.");
    const std::vector<double> loads = loads_in(options.simulate.loads, run);
    priced = plan::under_loads(std::move(priced), loads, [&](double load) {
      spec::Run loaded = run;
      loaded.layout.expert_load = load;
      return families::step_request(loaded).model;
    });
    out.costs_text += cat("; experts as in ", options.simulate.loads, ": the busiest rank has up to ",
                          fixed(std::ranges::max(loads), 2), " times an even share");
  }
  out.costs = simulate::costs_by(
      out.program, [&](std::uint32_t, const program::Op& op) { return simulate::cost(op, priced, rates); });
  return out;
}

}  // namespace

Simulated simulated_of(const Options& options) {
  if (options.file.empty() == options.simulate.schedule.empty())
    throw UserError("this command takes a run file, or --schedule NAME without one. See its --help.");
  if (!options.file.empty()) return run_of_file(options);
  return options.simulate.schedule.ends_with(".csv") ? written_schedule(options.simulate)
                                                     : bare_schedule(options.simulate);
}

std::string program_file(const Simulated& simulated) {
  TESSERA_CHECK(simulated.run, "a schedule by itself has no run to write down");
  std::string out;
  std::istringstream lines(spec::to_text(*simulated.run));
  for (std::string line; std::getline(lines, line);) out += cat(kRunMark, line, "\n");
  return out + program::to_text(simulated.program);
}

std::string title_of(const Simulated& simulated) {
  const auto& layout = simulated.layout;
  return cat(simulated.name, ": ", layout.pp, layout.pp == 1 ? " rank" : " ranks",
             layout.virtual_stages > 1 ? cat(" x ", layout.virtual_stages, " virtual stages") : "", ", ",
             simulated.num_micro, simulated.num_micro == 1 ? " micro-batch" : " micro-batches");
}

}  // namespace tessera::cli
