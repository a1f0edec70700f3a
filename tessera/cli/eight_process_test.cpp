// Eight processes that share units: tensor, context, data and pipeline parallelism together lose as one rank
// does, and a checkpoint goes from any of them to any other.
#include <gtest/gtest.h>

#include "tessera/cli/testing/eight_processes.hpp"

namespace tessera::cli {
namespace {

constexpr const char* kWithData = "layout.pp=2 layout.dp_shard=2 layout.tp=2 layout.zero=1";
constexpr const char* kWithContext = "layout.pp=2 layout.cp=2 layout.tp=2 layout.zero=1";

TEST_F(EightProcesses, LoseAsOneRankDoesForFiftyStepsAndGoOnFromEachOther) {
  const auto expected = trained(kOneRank);
  EXPECT_LT(expected.back(), expected.front() - 0.5) << "nothing was learnt: any layout would be near";
  for (const auto& [from, others] : {std::pair{kWithData, std::vector{kWithContext, kOneRank}},
                                     std::pair{kWithContext, std::vector{kWithData, kOneRank}}}) {
    begin_anew();
    expect_equal(trained(from), expected, from);
    for (const char* to : others) {
      forget_the_last();
      expect_equal(trained(to), expected, cat(from, " -> ", to));
    }
  }
  std::printf("worst relative difference of a loss: %.1e\n", worst_error_);
}

}  // namespace
}  // namespace tessera::cli
