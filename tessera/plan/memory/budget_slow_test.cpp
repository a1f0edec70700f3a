// The search within a memory limit, on many runs: limits are met, and three blocks cut in every way find
// nothing cheaper.
#include <gtest/gtest.h>

#include "tessera/plan/testing/budget_cases.hpp"
#include "tessera/plan/testing/of_run.hpp"

namespace tessera::plan {
namespace {

// Under a sanitizer every set of pieces takes minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRuns = 2;
#else
constexpr int kRuns = 12;
#endif

TEST(BudgetSlow, FiftyRandomRunsMeetTheirLimit) {
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

TEST(BudgetOfThreeBlocks, IsWithinTwoPercentOfTryingEverySet) {
  std::mt19937_64 dice(13);
  double worst = 1;
  for (int i = 0; i < kRuns; ++i) {
    const double ratio = against_brute_force(random_run(dice), 3, 1 + i % 4);
    worst = std::max(worst, ratio);
    EXPECT_LE(ratio, 1.02) << "case " << i;
  }
  std::printf("%d runs of three blocks: at most %.2f %% above the best of all sets\n", kRuns,
              100 * (worst - 1));
}

}  // namespace
}  // namespace tessera::plan
