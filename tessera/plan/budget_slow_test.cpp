// Three blocks, each cut in every way, against the search.
#include <gtest/gtest.h>

#include "tessera/plan/budget_cases.hpp"

namespace tessera::plan {
namespace {

TEST(BudgetOfThreeBlocks, IsWithinTwoPercentOfTryingEverySet) {
  std::mt19937_64 dice(13);
  double worst = 1;
  for (int i = 0; i < 12; ++i) {
    const double ratio = against_brute_force(random_run(dice), 3, 1 + i % 4);
    worst = std::max(worst, ratio);
    EXPECT_LE(ratio, 1.02) << "case " << i;
  }
  std::printf("12 runs of three blocks: at most %.2f %% above the best of all sets\n", 100 * (worst - 1));
}

}  // namespace
}  // namespace tessera::plan
