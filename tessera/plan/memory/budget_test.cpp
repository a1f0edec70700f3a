#include "tessera/plan/memory/budget.hpp"

#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/plan/memory/fill_blocks.hpp"
#include "tessera/plan/testing/budget_cases.hpp"
#include "tessera/plan/testing/of_run.hpp"

namespace tessera::plan {
namespace {

TEST(Budget, IsWithinTwoPercentOfTryingEverySet) {
  std::mt19937_64 dice(11);
  for (int i = 0; i < 8; ++i)
    EXPECT_LE(against_brute_force(random_run(dice), 2, 1 + i % 4), 1.02) << "case " << i;
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
  const auto found = options_of(run);
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
