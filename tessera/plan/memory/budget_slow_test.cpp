// Three blocks, each cut in every way, against the search.
#include <gtest/gtest.h>

#include "tessera/plan/testing/budget_cases.hpp"

namespace tessera::plan {
namespace {

// Under a sanitizer every set of pieces takes minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRuns = 2;
#else
constexpr int kRuns = 12;
#endif

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
