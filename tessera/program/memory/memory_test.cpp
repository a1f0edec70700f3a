#include "tessera/program/memory/memory.hpp"

#include <gtest/gtest.h>

#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::program {
namespace {

// Two segments, two buckets (embedding, norms) of 64 elements: Shard 256, State 512, gradients 256 bytes
// each. Value 1000, its gradient 1000, tapes 100, numbers 8.
TEST(Memory, OfTheSmallestProgramIsAsComputedByHand) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  const Program program = data_parallel(tables, {});
  ASSERT_EQ(words(program.classes[0], tables), "+tokens 0F0 1F0 1B0 r1! 0B0 r0! +loss +norm +finite s0 s1");
  const Memory memory = replay_memory(program.classes[0], tables);
  const std::int64_t durable = 2 * (256 + 512);
  const std::int64_t backward =
      durable + 16 + 1000 + 200 + 1000 + 512;  // 1B0: value, two tapes, gradient, two WeightGrads
  EXPECT_EQ(memory.during, (std::vector<std::int64_t>{
                               durable + 8,                // +tokens
                               durable + 8 + 1000 + 100,   // 0F0: value and tape
                               durable + 16 + 1000 + 200,  // 1F0: tape, and the loss
                               backward,                   // 1B0
                               backward - 1000 - 100,      // r1, in place; value and tape of 1 are gone
                               backward - 1000 - 100,      // 0B0
                               durable + 16 + 512,         // r0
                               durable + 16 + 512,         // +loss
                               durable + 24 + 512,         // +norm
                               durable + 32 + 512,         // +finite
                               durable + 32 + 512,         // s0
                               durable + 32 + 256,         // s1
                           }));
  EXPECT_EQ(memory.peak_bytes, backward);
  EXPECT_EQ(memory.peak_op, 3u);
  EXPECT_EQ(memory.at_peak[static_cast<std::size_t>(CellKind::tape)], 200);
  EXPECT_EQ(memory.at_peak[static_cast<std::size_t>(CellKind::weight_grad)], 512);
  EXPECT_EQ(memory.end_bytes, durable);
}

TEST(Memory, CountsTheScratchOfAForwardOnlyWhileItRuns) {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  const Program program = data_parallel(tables, {});
  const Memory before = replay_memory(program.classes[0], tables);
  tables.units[1].pieces = {{.name = "a", .tape_bytes = 100, .scratch_bytes = 3000},
                            {.name = "b", .scratch_bytes = 5000}};
  tables.segments[1].num_pieces = 2;
  const Memory memory = replay_memory(program.classes[0], tables);
  std::vector<std::int64_t> expected = before.during;
  expected[2] += 5000;  // 1F0
  EXPECT_EQ(memory.during, expected);
  EXPECT_EQ(memory.peak_bytes, expected[2]);
  EXPECT_EQ(memory.peak_op, 2u);
  EXPECT_EQ(memory.scratch_at_peak, 5000);
}

TEST(Memory, CountsGatheredWeightsFromGatherToFree) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true, .resident = false});
  const Program program = data_parallel(tables, {});
  ASSERT_EQ(words(program.classes[0], tables),
            "+tokens g0 g1 0F0 1F0 1B0 r1! dU1 0B0 r0! dU0 +loss +norm +finite s0 s1");
  const Memory memory = replay_memory(program.classes[0], tables);
  const std::int64_t durable = 2 * (256 + 512);
  EXPECT_EQ(memory.during[2], durable + 8 + 2 * 128);
  EXPECT_EQ(memory.during[11], durable + 16 + 2 * 256);
}

TEST(Memory, ShardedBucketsHoldTheirSliceAndReduceOutOfPlace) {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .dp = 4, .tied = true, .resident = false});
  for (Bucket& bucket : tables.buckets) bucket.sharded_over = 0;
  EXPECT_EQ(bytes_of({CellKind::shard, 0}, tables), 64);
  EXPECT_EQ(bytes_of({CellKind::state, 0}, tables), 128);
  EXPECT_EQ(bytes_of({CellKind::weight_grad, 0}, tables), 256);
  EXPECT_EQ(bytes_of({CellKind::shard_grad, 0}, tables), 64);
  const Memory memory = replay_memory(data_parallel(tables, {}).classes[0], tables);
  EXPECT_EQ(memory.end_bytes, 2 * (64 + 128));
  EXPECT_EQ(memory.during[6], memory.during[5] - 1000 - 100 + 64);  // r1: ShardGrad beside the WeightGrad
}

// Bucket 0 is reduced on the lane of dp while segment 0 computes.
TEST(Memory, WhatAnotherLaneEndsCountsWhileTheNextOpComputes) {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .dp = 4, .tied = true});
  for (Bucket& bucket : tables.buckets) bucket.sharded_over = 0, bucket.full_resident = false;
  const Op sum{.what = OpKind::sum, .item = 0};
  Sequence sequence;
  sequence.ops = {
      {.what = OpKind::backward, .item = 1, .micro = 0},
      {.what = OpKind::reduce, .lane = communication(0), .item = 0, .along = 0, .flags = kEndsSource},
      sum,
      {.what = OpKind::forward, .item = 0, .micro = 0},
      sum};
  const Memory memory = replay_memory(sequence, tables);
  EXPECT_EQ(memory.during[1], memory.during[2] - 8);           // the number
  EXPECT_EQ(memory.during[3], memory.during[2] + 1000 + 100);  // value and tape
  EXPECT_EQ(memory.during[4], memory.during[3] - 256);         // its WeightGrad is gone
  sequence.ops[2].num_waits = 1;
  sequence.waits = {1};
  EXPECT_EQ(replay_memory(sequence, tables).during[2], memory.during[2] - 256);  // known to come after
}

TEST(Memory, WhatIsOffloadedCountsUntilItIsKnownToBeOutside) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  const Op sum{.what = OpKind::sum, .item = 0}, forward{.what = OpKind::forward, .item = 0, .micro = 0};
  Sequence sequence;
  sequence.ops = {forward,
                  {.what = OpKind::offload, .lane = kCopy, .item = 0, .micro = 0},
                  {.what = OpKind::forward, .item = 1, .micro = 0},
                  sum,
                  sum};
  const Memory before = replay_memory(sequence, tables);
  EXPECT_EQ(before.during[3], before.during[4]);
  EXPECT_EQ(before.host_bytes, 1000);
  sequence.ops[4].num_waits = 1;
  sequence.waits = {1};
  EXPECT_EQ(replay_memory(sequence, tables).during[4], before.during[4] - 1000);
}

TEST(Memory, ASecondReductionIsSummedApartAndThenAdded) {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .dp = 4, .tied = true});
  for (Bucket& bucket : tables.buckets) bucket.sharded_over = 0, bucket.full_resident = false;
  Sequence sequence;
  const Op backward{.what = OpKind::backward, .item = 0, .micro = 0};
  const Op reduce{.what = OpKind::reduce, .item = 0, .along = 0, .flags = kEndsSource};
  sequence.ops = {backward, reduce, backward, reduce};
  const Memory memory = replay_memory(sequence, tables);
  EXPECT_EQ(memory.during[3] - memory.during[1], 64);
  // On a lane of its own it may still be at it, WeightGrad and all, when the next op computes.
  sequence.ops[3].lane = communication(0);
  sequence.ops.push_back({.what = OpKind::backward_weight, .item = 1, .micro = 0});
  sequence.ops.push_back({.what = OpKind::sum, .item = 0});
  const Memory beside = replay_memory(sequence, tables);
  EXPECT_EQ(beside.during[4], beside.during[3] + 256);  // the norms' WeightGrad begins
  EXPECT_EQ(beside.during[5], beside.during[4] - 64 - 256 + 8);
}

TEST(Memory, CellsAtAMomentAreToldLargestFirstAndAddUp) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  const Program program = data_parallel(tables, {});
  const auto held = cells_during(program.classes[0], tables, 2);
  ASSERT_FALSE(held.empty());
  EXPECT_EQ(held.front(), (HeldCell{{CellKind::value, 0, 0}, 1000}));
  std::int64_t sum = 0;
  for (const HeldCell& cell : held) sum += cell.bytes;
  EXPECT_EQ(sum, replay_memory(program.classes[0], tables).during[2]);
  const auto categories = categories_during(program.classes[0], tables)[2];
  EXPECT_EQ(categories.of(Category::values), 1000);
  EXPECT_EQ(categories.of(Category::tapes), 200);
}

TEST(Memory, StateFetchedBeforeUseStartsOnTheHost) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  Program program = data_parallel(tables, {});
  auto& ops = program.classes[0].ops;
  const auto state = static_cast<std::uint16_t>(CellKind::state);
  ops.insert(ops.end() - 2, Op{.what = OpKind::fetch, .lane = kCopy, .item = 0, .flags = state});
  ops.push_back(Op{.what = OpKind::offload, .lane = kCopy, .item = 0, .flags = state});
  const Memory memory = replay_memory(program.classes[0], tables);
  EXPECT_EQ(memory.during[0], 2 * 256 + 512 + 8);
  EXPECT_EQ(memory.end_bytes, 2 * 256 + 512);
  EXPECT_EQ(memory.host_bytes, 512);
}

}  // namespace
}  // namespace tessera::program
