#include "tessera/program/generate.hpp"

#include <gtest/gtest.h>

#include "tessera/base/golden.hpp"
#include "tessera/program/check.hpp"
#include "tessera/program/examples.hpp"
#include "tessera/program/text.hpp"

namespace tessera::program {
namespace {

std::string order(const Program& program) { return words(program.classes[0], program.tables); }

TEST(DataParallel, ReducesABucketAsSoonAsItsLastGradientIsMade) {
  const Program program = data_parallel(example_tables({.num_blocks = 1, .num_micro = 2}), {});
  EXPECT_EQ(order(program),
            "+tokens 0F0 1F0 2F0 2B0 1B0 0B0 0F1 1F1 2F1 2B1 r2! 1B1 r1! r3! 0B1 r0! +loss +norm +finite s0 "
            "s1 s2 s3");
}

TEST(DataParallel, ReducesTiedWeightsOnlyAfterTheEmbedding) {
  const Program program = data_parallel(example_tables({.num_blocks = 1, .num_micro = 1, .tied = true}), {});
  EXPECT_EQ(order(program), "+tokens 0F0 1F0 2F0 2B0 1B0 r1! r2! 0B0 r0! +loss +norm +finite s0 s1 s2");
}

TEST(DataParallel, GathersFirstAndFreesAfterTheLastBackwardWhatIsNotResident) {
  const Tables tables = example_tables({.num_blocks = 1, .num_micro = 1, .resident = false});
  EXPECT_EQ(order(data_parallel(tables, {})),
            "+tokens g0 g1 g2 g3 0F0 1F0 2F0 2B0 r2! dU2 1B0 r1! dU1 r3! dU3 0B0 r0! dU0 +loss +norm +finite "
            "s0 s1 s2 s3");
}

TEST(DataParallel, SplitsBackwardsIntoHalves) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  EXPECT_EQ(order(data_parallel(tables, {.split_backward = true})),
            "+tokens 0F0 1F0 1I0 1W0 r1! 0I0 0W0 r0! +loss +norm +finite s0 s1");
}

TEST(DataParallel, WithoutOverlapUsesOneLaneAndNeedsNoWaits) {
  const Tables tables = example_tables({});
  const Program serial = data_parallel(tables, {.overlap = false}), overlapped = data_parallel(tables, {});
  EXPECT_EQ(order(serial), order(overlapped));
  EXPECT_TRUE(serial.classes[0].waits.empty());
  for (const Op& op : serial.classes[0].ops) EXPECT_EQ(op.lane, kCompute);
}

TEST(DataParallel, IsTheSameProgramOnOneRank) {
  const Program one = data_parallel(example_tables({.dp = 1}), {}),
                two = data_parallel(example_tables({.dp = 2}), {});
  EXPECT_EQ(one.classes, two.classes);
}

TEST(DataParallel, ReadsAsReviewed) {
  const std::string text =
      to_text(data_parallel(example_tables({}), {})) + "\n" +
      to_text(data_parallel(example_tables({.resident = false}), {.split_backward = true}));
  EXPECT_EQ(golden("tessera/program/golden/data_parallel.txt", text), text);
}

TEST(DataParallel, PassesTheCheckerInEveryVariant) {
  for (const std::int32_t num_micro : {1, 2, 5})
    for (const bool tied : {false, true})
      for (const bool resident : {false, true})
        for (const bool overlap : {false, true})
          for (const bool split : {false, true}) {
            const Tables tables =
                example_tables({.num_micro = num_micro, .tied = tied, .resident = resident});
            EXPECT_EQ(to_text(check(data_parallel(tables, {overlap, split}))), "");
          }
}

}  // namespace
}  // namespace tessera::program
