#include "tessera/program/passes/offload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/memory/memory.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/program/testing/short_forms.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;

TEST(Offload, StatesComeOneStepAheadAndGoAfterIt) {
  const Tables tables = example_tables({.num_blocks = 1, .num_micro = 1});
  const Program program = data_parallel(tables, {.offload = {.optimizer = true}});
  EXPECT_THAT(order(program), HasSubstr("+finite fA0 fA1 s0 oA0 fA2 s1 oA1 fA3 s2 oA2 s3 oA3"));
  EXPECT_EQ(to_text(check(program)), "");
  EXPECT_EQ(replay_memory(program.classes[0], tables).end_bytes, 4 * 64 * 4) << "only the shards stay";
}

TEST(Offload, ShardsAreThereForTheirGatherAndTheirStep) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true, .sharded = true});
  const Program program = data_parallel(
      tables, {.residency = {.keeps_full = false, .prefetch = 0}, .offload = {.parameters = true}});
  EXPECT_EQ(order(program),
            "+tokens fS0 g0 oS0= 0F0 fS1 g1 oS1= 1F0 1B0 r1! dU1 0B0 r0! dU0 +loss +norm +finite fS0 fS1 s0 "
            "oS0 s1 oS1");
  EXPECT_EQ(to_text(check(program)), "");
}

TEST(Offload, ValuesOfRecomputedSegmentsAreAwayBetweenForwardAndRecomputation) {
  Tables tables = example_tables({.num_blocks = 4, .num_micro = 1});
  for (std::uint32_t block = 1; block <= 4; ++block) tables.segments[block].recomputed = true;
  const Program program = data_parallel(tables, {.offload = {.values = true}});
  EXPECT_THAT(order(program), HasSubstr("0F0 1N0 o0.0 2N0 o1.0 3N0 o2.0 4N0 5F0 5B0 r5! 4R0 f2.0 4B0 r4! 3R0 "
                                        "f1.0 3B0 r3! 2R0 f0.0 2B0 r2! 1R0 1B0"));
  EXPECT_EQ(to_text(check(program)), "");
}

TEST(Offload, WhatChangedMustBeWritten) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .sharded = true});
  Program program = data_parallel(tables, {.offload = {.optimizer = true}});
  for (Op& op : program.classes[0].ops)
    if (op.what == OpKind::offload) op.flags |= kUnchanged;
  EXPECT_THAT(to_text(check(program)),
              HasSubstr("drops State(embedding), of which host memory has no equal copy"));
}

TEST(Offload, ARankHoldsLessWithEachThingThatLeaves) {
  Tables tables = example_tables({.num_blocks = 6, .num_micro = 1, .sharded = true});
  for (std::uint32_t block = 1; block <= 6; ++block) tables.segments[block].recomputed = true;
  const auto peak = [&](const Offload& offload) {
    return replay_memory(
               data_parallel(tables, {.residency = {.keeps_full = false}, .offload = offload}).classes[0],
               tables)
        .peak_bytes;
  };
  const std::int64_t none = peak({}), optimizer = peak({.optimizer = true}),
                     both = peak({.optimizer = true, .parameters = true}),
                     all = peak({.optimizer = true, .parameters = true, .values = true});
  EXPECT_LT(optimizer, none);
  EXPECT_LT(both, optimizer);
  EXPECT_LT(all, both);
}

}  // namespace
}  // namespace tessera::program
