// Runs on which the search within a budget is tried, and what trying everything would have found.
#pragma once

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/budget.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/memory/memory.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::plan {

inline constexpr std::int64_t kMiB = 1 << 20;

inline std::int64_t peak(const program::Program& program) {
  std::int64_t most = 0;
  for (const auto& sequence : program.classes)
    most = std::max(most, program::replay_memory(sequence, program.tables).peak_bytes);
  return most;
}

inline std::int64_t peak_with(spec::Run run, spec::Recompute recompute) {
  run.layout.recompute = recompute;
  return peak(compile(run));
}

inline double step_seconds(const program::Program& program) {
  const auto costs = simulate::costs_by(
      program, [&](std::uint32_t, const program::Op& op) { return simulate::cost(op, program.tables, {}); });
  return simulate::simulate(program, costs).makespan;
}

// Large enough that tapes weigh more than weights.
inline spec::Run random_run(std::mt19937_64& dice) {
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + dice() % values.size());
  };
  spec::Run run;
  const std::int64_t heads = one_of({2, 4});
  run.model = {.layers = one_of({2, 3, 5, 8}), .hidden = 64 * heads, .heads = heads, .kv_heads = heads};
  run.model.ffn = one_of({2, 3, 4}) * run.model.hidden;
  run.model.vocab = 256;
  run.model.sequence = one_of({256, 512});
  run.model.family = dice() % 2 ? spec::Family::gpt2 : spec::Family::llama;
  run.layout.precision = dice() % 2 ? spec::Precision::bf16 : spec::Precision::fp32;
  run.layout.micro_batch = one_of({1, 4});
  run.layout.pp = one_of({1, 1, 2});
  run.layout.schedule = dice() % 2 ? "1f1b"_schedule : "zb-h1"_schedule;
  run.training.global_batch = run.layout.micro_batch * one_of({1, 2, 5});
  return run;
}

inline std::vector<Option> options_of(const spec::Run& run) {
  return options({run.layout.micro_batch * run.model.sequence, compute_dtype(run.layout.precision)},
                 families::step_request(run).model.blocks[0]);
}

// Every assignment of options to blocks of one rank, judged by replay and simulation.
inline double brute_force_seconds(const spec::Run& run, const std::vector<Option>& options,
                                  std::int64_t limit) {
  const StepRequest request = families::step_request(run);
  const Staged staged = stage(request);
  const auto num_blocks = static_cast<std::size_t>(run.model.layers);
  double best = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> choice(num_blocks, 0);
  for (;;) {
    Cuts cuts;
    for (const std::size_t option : choice) cuts.push_back(options[option].cut);
    const auto program = compile_cut(request, staged, cuts);
    if (peak(program) <= limit) best = std::min(best, step_seconds(program));
    std::size_t at = 0;
    while (at < num_blocks && ++choice[at] == options.size()) choice[at++] = 0;
    if (at == num_blocks) return best;
  }
}

// Step time of what the search finds, relative to the best of all sets, on one rank.
inline double against_brute_force(spec::Run run, std::int64_t num_layers, std::int64_t fifths) {
  run.model.layers = num_layers;
  run.layout.pp = 1;
  const std::int64_t most = peak_with(run, spec::Recompute::none),
                     least = peak_with(run, spec::Recompute::full);
  run.layout.memory_limit_mib = (least + (most - least) * fifths / 5) / kMiB + 1;
  run.layout.recompute = spec::Recompute::budget;
  const double best = brute_force_seconds(run, options_of(run), run.layout.memory_limit_mib * kMiB);
  return step_seconds(compile(run)) / best;
}

}  // namespace tessera::plan
