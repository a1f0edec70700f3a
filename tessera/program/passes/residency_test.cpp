#include "tessera/program/passes/residency.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/program/memory/slots.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/program/testing/short_forms.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;

Tables small(std::int32_t num_micro, std::uint32_t num_blocks = 1) {
  return example_tables({.num_blocks = num_blocks, .num_micro = num_micro, .sharded = true});
}

TEST(Residency, StageOneGathersOnceAndReducesOnce) {
  EXPECT_EQ(
      order(data_parallel(small(2), {})),
      "+tokens g0 g1 g3 g2 0F0 1F0 2F0 2B0 1B0 0B0 0F1 1F1 2F1 2B1 r2! dU2 1B1 r1! dU1 r3! dU3 0B1 r0! dU0 "
      "+loss +norm +finite s0 s1 s2 s3");
}

TEST(Residency, StageTwoReducesAfterEachMicroBatch) {
  EXPECT_EQ(order(data_parallel(small(2), {.residency = {.reduce_every = 1}})),
            "+tokens g0 g1 g3 g2 0F0 1F0 2F0 2B0 r2! 1B0 r1! r3! 0B0 r0! 0F1 1F1 2F1 2B1 r2! dU2 1B1 r1! dU1 "
            "r3! dU3 0B1 r0! dU0 +loss +norm +finite s0 s1 s2 s3");
}

TEST(Residency, TheLastGroupOfMicroBatchesMayBeShort) {
  const std::string text = order(data_parallel(small(3), {.residency = {.reduce_every = 2}}));
  EXPECT_THAT(text, HasSubstr("0B0 0F1"));
  EXPECT_THAT(text, HasSubstr("0B1 r0! 0F2"));
  EXPECT_THAT(text, HasSubstr("0B2 r0!"));
}

// The norms, which block and head read, are as large as any other bucket here.
TEST(Residency, StageThreeHoldsABucketOnlyWhileItIsUsed) {
  EXPECT_EQ(order(data_parallel(small(1), {.residency = {.keeps_full = false, .prefetch = 0}})),
            "+tokens g0 0F0 dU0 g1 g3 1F0 dU1 g2 2F0 2B0 r2! dU2 g1 1B0 r1! dU1 r3! dU3 g0 0B0 r0! dU0 "
            "+loss +norm +finite s0 s1 s2 s3");
}

TEST(Residency, PrefetchGathersAheadOfTheUse) {
  EXPECT_EQ(order(data_parallel(small(1), {.residency = {.keeps_full = false, .prefetch = 1}})),
            "+tokens g0 g1 0F0 dU0 g3 g2 1F0 dU1 g1 2F0 2B0 r2! dU2 g0 1B0 r1! dU1 r3! dU3 0B0 r0! dU0 "
            "+loss +norm +finite s0 s1 s2 s3")
      << "a bucket is gathered when the one before it is needed, and not before it was freed";
}

TEST(Residency, KeepsWhatFitsAndEvictsTheFarthestUse) {
  // 64 elements of four bytes each: one bucket fits beside what is used.
  const std::string text =
      order(data_parallel(small(1), {.residency = {.keeps_full = false, .keep_bytes = 256, .prefetch = 0}}));
  EXPECT_EQ(text,
            "+tokens g0 0F0 g1 g3 1F0 dU0 g2 2F0 2B0 r2! dU2 1B0 r1! dU1 r3! dU3 g0 0B0 r0! dU0 +loss +norm "
            "+finite s0 s1 "
            "s2 s3")
      << "the embedding is used last, the block next";
  EXPECT_EQ(
      order(data_parallel(small(1), {.residency = {.keeps_full = false, .keep_bytes = 1024, .prefetch = 9}})),
      order(data_parallel(small(1), {})));
}

TEST(Residency, AGatherWaitsForTheFreeBeforeItAndAGradientForTheReductionBeforeTheLast) {
  const Program program =
      data_parallel(small(1, 3), {.residency = {.keeps_full = false, .prefetch = 0, .reduce_every = 1}});
  const Sequence& sequence = program.classes[0];
  const auto waits = [&](const std::string& wanted, std::size_t nth) {
    for (const Op& op : sequence.ops)
      if (word(op, program.tables) == wanted && nth-- == 0) return waited_words(sequence, op, program.tables);
    return std::string("not there");
  };
  EXPECT_EQ(waits("g2", 0), "dU1") << "the first one, of a forward";
  EXPECT_THAT(waits("2B0", 0), HasSubstr("r4!"));
  EXPECT_THAT(waits("1B0", 0), HasSubstr("r3!"));
}

TEST(Residency, ReplicasOfAShardAreSummedLast) {
  const Tables tables =
      example_tables({.num_blocks = 0, .num_micro = 2, .tied = true, .sharded = true, .replicas = 2});
  const Program program = data_parallel(tables, {.residency = {.reduce_every = 1}});
  EXPECT_EQ(order(program),
            "+tokens +tokens g0 g1 0F0 1F0 1B0 r1! 0B0 r0! 0F1 1F1 1B1 r1! r1~ dU1 0B1 r0! r0~ dU0 "
            "+loss +loss +norm +norm +finite +finite s0 s1");
  EXPECT_EQ(to_text(check(program)), "");
}

// Every schedule with every residency is right by the checker, which runs it with buffered sends, with
// rendezvous and with one queue a rank.
TEST(Residency, ComposesWithEverySchedule) {
  for (const std::uint32_t num_ranks : {1u, 2u, 3u})
    for (const std::int32_t num_micro :
         {static_cast<std::int32_t>(num_ranks), static_cast<std::int32_t>(2 * num_ranks + 1)})
      for (const bool tied : {false, true})
        for (const std::int64_t replicas : {1, 2})
          for (const bool keeps_full : {false, true})
            for (const bool overlap : {false, true})
              for (const std::int32_t reduce_every : {0, 1, 2})
                for (int schedule = 0; schedule < 5; ++schedule) {
                  const std::uint32_t num_virtual = schedule < 3 ? 1 : 2;
                  const Pipeline pipeline{num_ranks, num_virtual, num_micro,
                                          even_costs(num_ranks, num_virtual, {})};
                  const Order made = schedule == 0   ? gpipe(pipeline)
                                     : schedule == 1 ? one_forward_one_backward(pipeline)
                                     : schedule == 2 ? zero_bubble_h1(pipeline)
                                     : schedule == 3 ? interleaved(pipeline)
                                                     : zero_bubble_v(pipeline);
                  const std::vector<std::uint32_t> counts(made.rank_of_stage.size(), 2);
                  Program program = example_pipeline(
                      {.tied = tied, .sharded = true, .replicas = replicas}, made, counts,
                      {.residency = {
                           .overlap = overlap, .keeps_full = keeps_full, .reduce_every = reduce_every}});
                  ASSERT_EQ(to_text(check(program)), "")
                      << num_ranks << " ranks, schedule " << schedule << "\n"
                      << to_text(program);
                  place_in_slots(program);
                  ASSERT_EQ(to_text(check(program)), "")
                      << "in slots, " << num_ranks << " ranks, schedule " << schedule;
                }
}

// What a step computes with is one version behind, so it is gathered before the update.
TEST(Residency, ADelayedBucketIsGatheredForTheNextStepBeforeItsUpdate) {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true, .resident = false});
  for (Bucket& bucket : tables.buckets) bucket.delayed = true;
  const Program program = data_parallel(tables, {});
  EXPECT_EQ(order(program), "+tokens 0F0 1F0 1B0 r1! dU1 g1 0B0 r0! dU0 g0 +loss +norm +finite s0 s1");
  EXPECT_EQ(to_text(check(program)), "");
  Program late = program;
  auto& ops = late.classes[0].ops;
  const auto gather = std::ranges::find_if(ops, [&](const Op& op) { return word(op, tables) == "g0"; });
  std::rotate(gather, gather + 1, ops.end());
  build_waits(late.classes[0], tables);
  EXPECT_THAT(to_text(check(late)), HasSubstr("but the next step computes with the version before it"));
}

TEST(Residency, TheCheckerMissesNoSum) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .sharded = true, .replicas = 2});
  const Program right = data_parallel(tables, {});
  const auto without = [&](const std::string& wanted) {
    Program program = right;
    auto& ops = program.classes[0].ops;
    std::erase_if(ops, [&](const Op& op) { return word(op, tables) == wanted; });
    build_waits(program.classes[0], tables);
    return to_text(check(program));
  };
  EXPECT_THAT(without("r1~"),
              HasSubstr("uses the gradient of bucket head before it is summed over replicas"));
  EXPECT_THAT(without("r1!"), HasSubstr("reads ShardGrad(head), which is not made yet"));
  Program twice = right;
  auto& ops = twice.classes[0].ops;
  const auto shared = std::ranges::find_if(ops, [&](const Op& op) { return word(op, tables) == "r1~"; });
  ops.insert(shared, *shared);
  build_waits(twice.classes[0], tables);
  EXPECT_THAT(to_text(check(twice)), HasSubstr("which has summed the gradient of bucket head"));
}

}  // namespace
}  // namespace tessera::program
