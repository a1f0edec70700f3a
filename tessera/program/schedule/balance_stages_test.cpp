#include "tessera/program/schedule/balance_stages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/program/schedule/dice.hpp"
#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {
namespace {

using Counts = std::vector<std::uint32_t>;
using testing::HasSubstr;
using testing::ThrowsMessage;

double largest_stage(const std::vector<double>& units, const Counts& counts) {
  double out = 0;
  auto unit = units.begin();
  for (const std::uint32_t count : counts) {
    out = std::max(out, std::accumulate(unit, unit + count, 0.0));
    unit += count;
  }
  return out;
}

// By trying everything.
double least_largest_stage(const std::vector<double>& units, std::size_t first, std::size_t num_stages) {
  if (num_stages == 1)
    return std::accumulate(units.begin() + static_cast<std::ptrdiff_t>(first), units.end(), 0.0);
  double out = std::numeric_limits<double>::infinity(), stage = 0;
  for (std::size_t end = first + 1; end + num_stages - 1 <= units.size(); ++end) {
    stage += units[end - 1];
    out = std::min(out, std::max(stage, least_largest_stage(units, end, num_stages - 1)));
  }
  return out;
}

TEST(Deal, EqualUnitsMakeEvenStagesWhateverTheirNumber) {
  EXPECT_EQ(balance_stages(std::vector<double>(8, 1), looped(4, 1)), (Counts{2, 2, 2, 2}));
  const Counts ten = balance_stages(std::vector<double>(10, 1), looped(4, 1));
  EXPECT_EQ(std::ranges::max(ten), 3u);
  EXPECT_EQ(std::ranges::min(ten), 2u);
  EXPECT_EQ(balance_stages(std::vector<double>(4, 1), looped(4, 1)), (Counts{1, 1, 1, 1}));
}

TEST(Deal, AHeavyHeadLeavesItsStageFewerBlocks) {
  std::vector<double> units(10, 1);
  units.front() = 0.1;  // embedding
  units.back() = 3;     // head
  EXPECT_EQ(balance_stages(units, looped(3, 1)), (Counts{4, 4, 2}));
  EXPECT_EQ(balance_stages(units, looped(2, 1)), (Counts{6, 4}));
}

TEST(Deal, NoOtherRunsHaveASmallerLargestStage) {
  constexpr std::uint64_t kSeed = 3;
  Dice dice(kSeed, "deal");
  for (int round = 0; round < 300; ++round) {
    std::vector<double> units(1 + dice.below(10));
    for (double& unit : units) unit = 0.1 + 0.1 * dice.below(30);
    const std::uint32_t num_stages = 1 + dice.below(units.size());
    const Counts counts = balance_stages(units, looped(num_stages, 1));
    ASSERT_EQ(counts.size(), num_stages);
    ASSERT_GE(std::ranges::min(counts), 1u);
    ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), 0u), units.size());
    ASSERT_NEAR(largest_stage(units, counts), least_largest_stage(units, 0, num_stages), 1e-9)
        << "seed " << kSeed << ", round " << round;
  }
}

TEST(Deal, StagesOfOneRankMakeUpForEachOther) {
  std::vector<double> units(10, 1);
  units.back() = 2;
  // Eleven units of work for two ranks: the V's ends lie on one rank, the loop's first and third stage.
  for (const auto& places : {vee(2), looped(2, 2)}) {
    const Counts counts = balance_stages(units, places);
    std::vector<double> ranks(2, 0);
    std::size_t unit = 0;
    for (std::size_t stage = 0; stage < counts.size(); ++stage)
      for (std::uint32_t i = 0; i < counts[stage]; ++i) ranks[places[stage]] += units[unit++];
    EXPECT_EQ(std::ranges::max(ranks), 6);
    EXPECT_LE(largest_stage(units, counts), 3);
  }
}

TEST(Deal, FewerUnitsThanStagesAreRefused) {
  EXPECT_THAT([] { balance_stages(std::vector<double>(5, 1), looped(3, 2)); },
              ThrowsMessage<UserError>(HasSubstr("5 units (embedding, blocks, head) can't fill 6 stages")));
}

TEST(Deal, AThousandUnitsAreDealtAtOnce) {
  std::vector<double> units(1002, 1);
  units.back() = 7;
  const Counts counts = balance_stages(units, looped(64, 4));
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0u), units.size());
}

}  // namespace
}  // namespace tessera::program
