#include "tessera/plan/budget.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/family.hpp"
#include "tessera/plan/fill_blocks.hpp"
#include "tessera/program/generate.hpp"
#include "tessera/program/memory.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::plan {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::int64_t peak(const program::Program& program) {
  std::int64_t most = 0;
  for (const auto& sequence : program.classes)
    most = std::max(most, program::replay_memory(sequence, program.tables).peak_bytes);
  return most;
}

std::int64_t peak_with(spec::Run run, spec::Recompute recompute) {
  run.layout.recompute = recompute;
  return peak(compile(run));
}

double step_seconds(const program::Program& program) {
  const auto costs = simulate::costs_by(
      program, [&](std::uint32_t, const program::Op& op) { return simulate::cost(op, program.tables, {}); });
  return simulate::simulate(program, costs).makespan;
}

// Large enough that tapes weigh more than weights.
spec::Run random_run(std::mt19937_64& dice) {
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
  run.layout.schedule = dice() % 2 ? spec::Schedule::f1b1 : spec::Schedule::zb_h1;
  run.training.global_batch = run.layout.micro_batch * one_of({1, 2, 5});
  return run;
}

TEST(Budget, FiftyRandomRunsMeetTheirLimit) {
  std::mt19937_64 dice(7);
  for (int i = 0; i < 50; ++i) {
    spec::Run run = random_run(dice);
    const double part = static_cast<double>(dice() % 1000) / 1000;
    const std::int64_t most = peak_with(run, spec::Recompute::none),
                       least = peak_with(run, spec::Recompute::full);
    run.layout.recompute = spec::Recompute::budget;
    run.layout.memory_limit_mib =
        (least + static_cast<std::int64_t>(part * static_cast<double>(most - least))) / kMiB + 1;
    const auto program = compile(run);
    EXPECT_LE(peak(program), run.layout.memory_limit_mib * kMiB) << "case " << i;
    if (run.layout.memory_limit_mib * kMiB >= most) {
      for (const auto& segment : program.tables.segments) EXPECT_FALSE(segment.recomputed) << "case " << i;
    }
  }
}

// Every assignment of options to blocks of one rank, judged by replay and simulation.
double brute_force_seconds(const spec::Run& run, const std::vector<Option>& options, std::int64_t limit) {
  const auto num_blocks = static_cast<std::size_t>(run.model.layers);
  double best = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> choice(num_blocks, 0);
  for (;;) {
    Cuts cuts;
    for (const std::size_t option : choice) cuts.push_back(options[option].cut);
    const auto program = program::data_parallel(describe(run, {}, cuts));
    if (peak(program) <= limit) best = std::min(best, step_seconds(program));
    std::size_t at = 0;
    while (at < num_blocks && ++choice[at] == options.size()) choice[at++] = 0;
    if (at == num_blocks) return best;
  }
}

TEST(Budget, IsWithinTwoPercentOfTryingEverySet) {
  std::mt19937_64 dice(11);
  for (int i = 0; i < 8; ++i) {
    spec::Run run = random_run(dice);
    run.model.layers = 2;
    run.layout.pp = 1;
    const std::int64_t most = peak_with(run, spec::Recompute::none),
                       least = peak_with(run, spec::Recompute::full);
    const std::int64_t limit_mib = (least + (most - least) * (1 + i % 4) / 5) / kMiB + 1;
    const double best = brute_force_seconds(run, options(run, blueprint(run).blocks[0]), limit_mib * kMiB);
    run.layout.recompute = spec::Recompute::budget;
    run.layout.memory_limit_mib = limit_mib;
    const double found = step_seconds(compile(run));
    EXPECT_LE(found, 1.02 * best) << "case " << i;
  }
}

TEST(Budget, ALimitThatNothingMeetsIsToldWithTheLeastPossible) {
  std::mt19937_64 dice(3);
  spec::Run run = random_run(dice);
  run.layout.recompute = spec::Recompute::budget;
  run.layout.memory_limit_mib = 1;
  std::string text;
  try {
    compile(run);
  } catch (const UserError& error) {
    text = error.what();
  }
  const std::string key = "Write layout.memory_limit_mib = ";
  ASSERT_NE(text.find(key), std::string::npos) << text;
  run.layout.memory_limit_mib = std::stoll(text.substr(text.find(key) + key.size()));
  EXPECT_LE(peak(compile(run)), run.layout.memory_limit_mib * kMiB);
}

TEST(Budget, OptionsTradeBytesForSecondsFromKeepingAllToRecomputingAll) {
  std::mt19937_64 dice(5);
  const auto run = random_run(dice);
  const auto found = options(run, blueprint(run).blocks[0]);
  ASSERT_GE(found.size(), 3u);
  EXPECT_EQ(found.front().seconds, 0);
  EXPECT_EQ(found.front().cut.size(), 1u);
  EXPECT_EQ(std::ranges::min(found, {}, &Option::kept_bytes).kept_bytes, 0);
  for (const Option& option : found) EXPECT_GE(option.during_bytes, option.kept_bytes);
}

TEST(Budget, BlocksOfARankAreFilledByTheCheapestOptions) {
  // Keeping holds 10, recomputing none; while either runs backward there are 10 of it.
  const std::vector<Option> options = {{{}, 10, 10, 0}, {{}, 0, 10, 1}};
  using Choice = std::vector<std::size_t>;
  EXPECT_EQ(fill_blocks({options, 3, 1, 30}), (Choice{0, 0, 0}));
  EXPECT_EQ(fill_blocks({options, 3, 1, 9}), std::nullopt);
  // One must be recomputed, and not the last: that is made again while all others are held.
  const auto two = fill_blocks({options, 3, 1, 20}).value();
  EXPECT_EQ(std::ranges::count(two, 1u), 1);
  EXPECT_EQ(two.back(), 0u);
  // With two micro-batches under way one block is kept twice.
  EXPECT_EQ(std::ranges::count(fill_blocks({options, 3, 2, 30}).value(), 0u), 1);
}

}  // namespace
}  // namespace tessera::plan
