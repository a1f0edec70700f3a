// Eight processes with values in blocks lose as one rank does, and a checkpoint goes from kind to kind. About
// a minute.
#include <gtest/gtest.h>

#include "tessera/cli/testing/eight_processes.hpp"

namespace tessera::cli {
namespace {

constexpr const char* kCube = "layout.tp=8 layout.tp_kind=3d layout.micro_batch=4";
constexpr const char* kSquares =
    "layout.dp_shard=2 layout.tp=4 layout.tp_kind=2d layout.micro_batch=4 layout.zero=1";

TEST_F(EightProcesses, InBlocksLoseAsOneRankDoesForFiftyStepsAndGoOnFromEachOther) {
  const auto expected = trained(kOneRank);
  for (const auto& [from, to] : {std::pair{kCube, kSquares}, std::pair{kSquares, kCube}}) {
    begin_anew();
    expect_equal(trained(from), expected, from);
    forget_the_last();
    expect_equal(trained(to), expected, cat(from, " -> ", to));
  }
  std::printf("worst relative difference of a loss: %.1e\n", worst_error_);
}

}  // namespace
}  // namespace tessera::cli
