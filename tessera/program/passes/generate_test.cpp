#include "tessera/program/passes/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/golden.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/program/passes/chain.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/schedule/walk_order.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/program/testing/short_forms.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;

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
            "+tokens g0 g1 g3 g2 0F0 1F0 2F0 2B0 r2! dU2 1B0 r1! dU1 r3! dU3 0B0 r0! dU0 +loss +norm +finite "
            "s0 s1 s2 s3");
}

TEST(DataParallel, SplitsBackwardsIntoHalves) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  EXPECT_EQ(order(data_parallel(tables, {}, true)),
            "+tokens 0F0 1F0 1I0 1W0 r1! 0I0 0W0 r0! +loss +norm +finite s0 s1");
}

TEST(DataParallel, WithoutOverlapUsesOneLaneAndNeedsNoWaits) {
  const Tables tables = example_tables({});
  const Program serial = data_parallel(tables, {.residency = {.overlap = false}}),
                overlapped = data_parallel(tables, {});
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
  const std::string text = to_text(data_parallel(example_tables({}), {})) + "\n" +
                           to_text(data_parallel(example_tables({.resident = false}), {}, true));
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
            EXPECT_EQ(to_text(check(data_parallel(tables, {.residency = {.overlap = overlap}}, split))), "");
          }
}

Order one_each() {
  return {2, {0, 1}, {{f(0, 0), f(0, 1), b(0, 0), b(0, 1)}, {f(1, 0), b(1, 0), f(1, 1), b(1, 1)}}};
}
// Stages 0 and 3 on rank 0, 1 and 2 on rank 1.
Order v_shape() {
  return {1,
          {0, 1, 1, 0},
          {{f(0, 0), f(3, 0), i(3, 0), w(3, 0), i(0, 0), w(0, 0)},
           {f(1, 0), f(2, 0), i(2, 0), i(1, 0), w(2, 0), w(1, 0)}}};
}

TEST(Pipeline, SendsWhatIsMadeAndReceivesAhead) {
  const Program program = example_pipeline({.dp = 1}, one_each(), {2, 1});
  EXPECT_EQ(
      words(program.classes[0], program.tables),
      "+tokens 0F0 1F0 >1.0! 0F1 1F1 >1.1! <G1.0 1B0 0B0 <G1.1 1B1 r1! r3! 0B1 r0! +loss +loss +norm +norm "
      "+finite +finite s0 s1 s3");
  EXPECT_EQ(words(program.classes[1], program.tables),
            "+tokens <1.0 2F0 <1.1 2B0 >G1.0! 2F1 2B1 r2! r4! >G1.1! +loss +loss +norm +norm +finite +finite "
            "s2 s4");
  EXPECT_EQ(to_text(check(program)), "");
}

TEST(Pipeline, TiedWeightsOfTwoStagesAreReducedAmongThem) {
  const Program program = example_pipeline({.dp = 2, .tied = true}, one_each(), {2, 1});
  EXPECT_EQ(to_text(check(program)), "");
  Program wrong = program;
  wrong.tables.buckets[0].reduced_over = 0;
  EXPECT_THAT(to_text(check(wrong)),
              HasSubstr("bucket embedding is computed with at 0 and 1 along pp, but its "
                        "gradient is reduced among one of them"));
}

TEST(Pipeline, NeighboursOnOneRankNeedNoTransfer) {
  const Program program = example_pipeline({.tied = true}, v_shape(), {1, 1, 1, 1});
  EXPECT_EQ(to_text(check(program)), "");
  EXPECT_EQ(program.tables.axis_sets.size(), 3u) << "a tied table of one rank is an ordinary bucket";
  const auto& ops = program.classes[1].ops;
  EXPECT_EQ(std::ranges::count(ops, OpKind::send, &Op::what), 2);
  EXPECT_EQ(std::ranges::count(ops, OpKind::receive, &Op::what), 2);
}

TEST(Pipeline, IsRightWithUnevenStagesAndOtherSizes) {
  for (const bool tied : {false, true})
    for (const bool resident : {false, true})
      for (const std::int64_t dp : {1, 2})
        for (const auto& counts : {std::vector<std::uint32_t>{1, 3}, {3, 1}, {5, 2}}) {
          const Example example{.dp = dp, .tied = tied, .resident = resident};
          for (const std::uint32_t ahead : {1u, 100u})
            EXPECT_EQ(
                to_text(check(example_pipeline(example, one_each(), counts, {.receives_ahead = ahead}))), "");
        }
}

TEST(Pipeline, EverySegmentIsComputedOnceAlongTheStages) {
  const Program program = example_pipeline({.dp = 1}, one_each(), {2, 1});
  Program twice = program;
  twice.classes[1] = program.classes[0];
  EXPECT_THAT(to_text(check(twice), 100), HasSubstr("segment 0 is computed by class 0 and by class 1"));
  EXPECT_THAT(to_text(check(twice), 100), HasSubstr("segment 2 is computed by nobody"));
}

TEST(Pipeline, AllStagesSumANumberOverTheAxesInOneOrder) {
  Program program = example_pipeline({.dp = 2}, one_each(), {2, 1});
  auto& ops = program.classes[1].ops;
  const auto first =
      std::ranges::find_if(ops, [&](const Op& op) { return word(op, program.tables) == "+norm"; });
  std::swap(*first, *(first + 1));
  build_waits(program.classes[1], program.tables);
  EXPECT_THAT(to_text(check(program)), HasSubstr("(+norm) sums over other axes before than in class 0"));
}

TEST(Pipeline, AnOrderThatGetsStuckIsRefusedInWords) {
  Order order = one_each();
  std::swap(order.ranks[1][0], order.ranks[1][1]);
  try {
    example_pipeline({}, order, {2, 1});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 stands before 1B0, which needs 1F0"));
  }
}

TEST(Generate, ForwardsAloneEvaluate) {
  const auto costs = even_costs(4, 2, {1, 1, 1}, 0);
  const Order trained = interleaved({4, 2, 8, costs});
  const Program program = chain(forwards_of(trained), costs);
  EXPECT_EQ(to_text(check(program)), "");
  for (const Sequence& sequence : program.classes) {
    std::size_t num_forwards = 0;
    for (const Op& op : sequence.ops) {
      const bool evaluates = op.what == OpKind::forward || op.what == OpKind::free ||
                             op.what == OpKind::send || op.what == OpKind::receive || op.what == OpKind::sum;
      EXPECT_TRUE(evaluates) << word(op, program.tables);
      EXPECT_TRUE(op.what != OpKind::forward || (op.flags & kNoTape));
      num_forwards += op.what == OpKind::forward;
    }
    EXPECT_EQ(num_forwards, 16u);
  }
}

TEST(Schedule, ForwardsAloneLeaveNoRankIdleButAtTheEnds) {
  const auto costs = even_costs(4, 1, {1, 1, 1}, 0);
  const Walk walked = walk(forwards_of(one_forward_one_backward({4, 1, 8, costs})), costs);
  EXPECT_EQ(walked.stuck, "");
  EXPECT_DOUBLE_EQ(walked.makespan, 8 + 3);
}

}  // namespace
}  // namespace tessera::program
