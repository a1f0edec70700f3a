#include <algorithm>
#include <cstdio>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/schedule.hpp"
#include "tessera/program/chain.hpp"
#include "tessera/program/check.hpp"
#include "tessera/program/memory.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/spec/words.hpp"
#include "tessera/train/traced_ops.hpp"

namespace tessera::cli {
namespace {

// What is simulated, and in whose units.
struct Simulated {
  spec::Layout layout;
  std::int64_t num_micro = 1;
  std::string note;  // what the schedule chose or does instead
  std::string costs_text;
  bool is_in_seconds = false;
  program::Program program;
  simulate::OpCosts costs;
};

spec::Schedule schedule_of(const std::string& word) {
  const auto& words = spec::words<spec::Schedule>();
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<spec::Schedule>(found - words.begin());
  const auto near = nearest(word, words);
  throw UserError(cat("--schedule ", word, ": there is no such schedule",
                      near ? cat("; did you mean ", *near, "?") : ".", " There are ", join(words, ", "),
                      "."));
}

// A schedule by itself, on a bare chain of stages.
Simulated bare_schedule(const SimulateOptions& options) {
  Simulated out;
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
  const auto& costs = options.costs;
  const program::Costs priced = program::even_costs(num_ranks, num_virtual, {costs[0], costs[1], costs[2]},
                                                    costs.size() > 3 ? costs[3] : 0);
  auto scheduled =
      options.memory_limit > 0
          ? plan::schedule(out.layout.schedule, {num_ranks, num_virtual, options.micro_batches, priced},
                           options.memory_limit)
          : plan::schedule(out.layout.schedule, {num_ranks, num_virtual, options.micro_batches, priced});
  const std::int64_t held = std::ranges::max(program::peak_activations(scheduled.order));
  if (options.memory_limit > 0 && held > options.memory_limit)
    throw UserError(cat("schedule ", options.schedule, " holds ", held,
                        " activations on a rank, more than --memory-limit ", options.memory_limit,
                        ": take --schedule auto, or a larger limit"));
  out.note = scheduled.note;
  out.costs_text = cat("forward ", costs[0], ", input ", costs[1], ", weight ", costs[2],
                       " per rank, transfer ", priced.transfer);
  out.program = program::chain(scheduled.order, priced);
  const auto problems = program::check(out.program);
  CHECK(problems.empty(), "the program of this schedule is wrong:\n", program::to_text(problems));
  out.costs = simulate::table_costs(out.program);
  return out;
}

simulate::Rates rates_of(const spec::Run& run, const std::vector<double>& given) {
  simulate::Rates rates;
  if (run.cluster.peak_tflops > 0) rates.flops = run.cluster.peak_tflops * 1e12;
  if (given.empty()) return rates;
  for (std::size_t i = 0; i < 3; ++i)
    if (given[i] == 0) throw UserError("--rates: only the microseconds of a message may be 0");
  return {given[0] * 1e12, given[1] * 1e9, given[2] * 1e9, given[3] * 1e-6};
}

Simulated run_of_file(const Options& options) {
  const spec::Run run = load_run(options);
  Simulated out;
  out.layout = run.layout;
  out.layout.virtual_stages = run.layout.num_virtual();
  out.num_micro = run.num_micro_batches();
  out.is_in_seconds = true;
  out.program = plan::compile(run, &out.note);
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
                       " GB/s, message ", rates.link_seconds * 1e6, " us");
  out.costs = simulate::costs_by(
      out.program, [&](std::uint32_t, const program::Op& op) { return simulate::cost(op, tables, rates); });
  return out;
}

std::int64_t num_ops(const program::Program& program) {
  std::size_t total = 0;
  for (const auto& sequence : program.classes) total += sequence.ops.size();
  return static_cast<std::int64_t>(total);
}

std::int64_t peak_bytes(const Simulated& simulated, std::size_t rank_class) {
  return program::replay_memory(simulated.program.classes[rank_class], simulated.program.tables).peak_bytes;
}

metrics::Record to_record(const Simulated& simulated, const simulate::Report& report, double seconds) {
  std::vector<std::int64_t> ranks, peaks, bytes;
  std::vector<double> busy;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    ranks.push_back(report.classes[c].num_ranks);
    peaks.push_back(report.classes[c].peak_activations);
    busy.push_back(report.classes[c].busy);
    if (simulated.is_in_seconds) bytes.push_back(peak_bytes(simulated, c));
  }
  metrics::Record out = {{"schedule", spec::word(simulated.layout.schedule)},
                         {"stages", simulated.layout.pp},
                         {"virtual", simulated.layout.virtual_stages},
                         {"micro_batches", simulated.num_micro},
                         {"makespan", report.makespan},
                         {"bubble", report.bubble},
                         {"step_seconds", report.step_seconds},
                         {"peak_activations", peaks},
                         {"busy", busy},
                         {"ranks", ranks},
                         {"ops", num_ops(simulated.program)},
                         {"note", simulated.note},
                         {"costs", simulated.costs_text},
                         {"seconds", seconds}};
  if (simulated.is_in_seconds) out.push_back({"peak_bytes", bytes});
  return out;
}

std::string bar(double share) {
  constexpr int kWidth = 30;
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * kWidth + 0.5);
  std::string out;
  for (int i = 0; i < kWidth; ++i) out += i < full ? "█" : "·";
  return out;
}

std::string to_text(const Simulated& simulated, const simulate::Report& report, double seconds) {
  const auto time = [&](double t) {
    return simulated.is_in_seconds ? cat(fixed(t * 1e3, 2), " ms") : cat(fixed(t, 3));
  };
  std::string out =
      cat(spec::word(simulated.layout.schedule), ": ", simulated.layout.pp, " ranks x ",
          simulated.layout.virtual_stages, " stages, ", simulated.num_micro, " micro-batches\n");
  if (!simulated.note.empty()) out += cat(simulated.note, "\n");
  out += cat("costs: ", simulated.costs_text, "\n");
  out += cat("makespan ", time(report.makespan), ", bubble ", fixed(100 * report.bubble, 1), " %");
  if (simulated.is_in_seconds) out += cat(", whole step ", time(report.step_seconds));
  out += "\n\n";
  const auto& class_of_rank = simulated.program.tables.class_of_rank;
  const bool has_equals = class_of_rank.size() > report.classes.size();
  std::vector<std::vector<std::string>> rows = {{"rank", "activations", "busy %", ""}};
  if (has_equals) rows[0].push_back("equal ranks");
  if (simulated.is_in_seconds) rows[0].push_back("most bytes");
  for (std::uint32_t c = 0; c < report.classes.size(); ++c) {
    const auto& of_class = report.classes[c];
    const auto rank = std::ranges::find(class_of_rank, c) - class_of_rank.begin();
    rows.push_back(
        {cat(rank), cat(of_class.peak_activations), fixed(100 * of_class.busy, 1), bar(of_class.busy)});
    if (has_equals) rows.back().push_back(cat(of_class.num_ranks));
    if (simulated.is_in_seconds)
      rows.back().push_back(bytes_text(static_cast<double>(peak_bytes(simulated, c))));
  }
  return cat(out, table(rows), num_ops(simulated.program), " ops compiled, checked and simulated in ",
             fixed(seconds * 1e3, 1), " ms\n");
}

}  // namespace

int simulate_command(const Options& options) {
  if (options.file.empty() == options.simulate.schedule.empty())
    throw UserError(
        "simulate takes a run file, or --schedule NAME without one. See tessera simulate --help.");
  const double start = now_seconds();
  const Simulated simulated = options.file.empty() ? bare_schedule(options.simulate) : run_of_file(options);
  const simulate::Timeline timeline = simulate::simulate(simulated.program, simulated.costs);
  const simulate::Report report = simulate::report(simulated.program, timeline);
  const double seconds = now_seconds() - start;
  std::fputs((options.json ? metrics::json_object(to_record(simulated, report, seconds)) + "\n"
                           : to_text(simulated, report, seconds))
                 .c_str(),
             stdout);
  return 0;
}

}  // namespace tessera::cli
