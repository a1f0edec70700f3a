#include "tessera/collective/transports/nccl/gpu_of_rank.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"

namespace tessera::collective {
namespace {

Seat seat(int local_rank) {
  Seat out;
  out.rank = 8 + local_rank;
  out.local_rank = local_rank;
  return out;
}

TEST(GpuOfRank, IsTheLocalRankWhereEachProcessSeesAllGpus) {
  for (const int rank : {0, 3, 7}) EXPECT_EQ(gpu_of_rank(seat(rank), 8), rank);
}

TEST(GpuOfRank, IsTheOnlyOneWhereEachProcessSeesItsOwnAlone) {
  for (const int rank : {0, 3, 7}) EXPECT_EQ(gpu_of_rank(seat(rank), 1), 0);
}

TEST(GpuOfRank, FewerGpusThanRanksAreRefused) {
  EXPECT_THROW(gpu_of_rank(seat(0), 0), UserError);
  try {
    gpu_of_rank(seat(4), 4);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(
        error.what(),
        testing::HasSubstr("rank 12 is number 4 on its host, counted from 0, but its process sees 4 GPUs"));
  }
}

}  // namespace
}  // namespace tessera::collective
