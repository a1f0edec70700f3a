#include "tessera/program/check/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;

std::string found(const Program& program, const CheckOptions& options = {}) {
  return to_text(check(program, options));
}

TEST(Check, NamesTheOpAndSaysInWordsWhatIsWrong) {
  Program program = data_parallel(example_tables({.num_blocks = 0, .num_micro = 1, .tied = true}), {});
  auto& ops = program.classes[0].ops;
  std::swap(ops[1], ops[2]);
  build_waits(program.classes[0], program.tables);
  const auto problems = check(program);
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems[0],
            (Problem{0, 1, "op 1 (1F0) reads Value(hidden.0, micro-batch 0), which is not made yet"}));
}

TEST(Check, RefusesIndicesOutsideTheTables) {
  const auto with = [](auto edit) {
    Program program = data_parallel(example_tables({}), {});
    edit(program.classes[0]);
    return found(program);
  };
  EXPECT_THAT(with([](Sequence& s) { s.ops[1].item = 77; }), HasSubstr("op 1 (77F0) speaks of segment 77"));
  EXPECT_THAT(with([](Sequence& s) { s.ops[1].micro = 2; }),
              HasSubstr("micro-batch 2, but there are only 2"));
  EXPECT_THAT(with([](Sequence& s) { s.ops[1].micro = -1; }), HasSubstr("micro-batch -1"));
  EXPECT_THAT(with([](Sequence& s) { s.ops[0].along = 9; }), HasSubstr("axis set 9"));
  EXPECT_THAT(with([](Sequence& s) { s.ops[0].item = 9; }), HasSubstr("number 9"));
  EXPECT_THAT(with([](Sequence& s) { s.ops[1] = {.what = OpKind::free, .flags = 0x000f}; }),
              HasSubstr("op 1 (d?0) names cell kind 15, which does not exist"));
  EXPECT_THAT(with([](Sequence& s) { s.ops[1].num_waits = 999; }), HasSubstr("outside the list of waits"));
  EXPECT_THAT(with([](Sequence& s) { s.waits[0] = 500; }), HasSubstr("waits for op 500"));
  EXPECT_THAT(with([](Sequence& s) { s.waits[0] = 29; }), HasSubstr("which is not issued before it"));
}

// Each of these would run, or end in a Bug, with all cells in their places.
TEST(Check, RefusesOpsThatTheirCellsCannotTake) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  const auto with = [&](auto edit, const GenerateOptions& options = {}) {
    Program program = data_parallel(tables, options);
    edit(program.classes[0]);
    build_waits(program.classes[0], tables);
    return found(program);
  };
  const auto flags = [](CellKind kind) { return static_cast<std::uint16_t>(kind); };
  EXPECT_THAT(with([&](Sequence& s) {
                ASSERT_EQ(word(s.ops.back(), tables), "s1");
                s.ops.back() = {.what = OpKind::free, .item = 1, .flags = flags(CellKind::shard_grad)};
              }),
              HasSubstr("(dZ1) names a cell of another kind"))
      << "a bucket that is never stepped";
  EXPECT_THAT(
      with([&](Sequence& s) {
        ASSERT_EQ(word(s.ops[4], tables), "r1!");
        s.ops.insert(
            s.ops.begin() + 4,
            {.what = OpKind::offload, .lane = kCopy, .item = 1, .flags = flags(CellKind::weight_grad)});
        s.ops.insert(
            s.ops.begin() + 5,
            {.what = OpKind::fetch, .lane = kCopy, .item = 1, .flags = flags(CellKind::weight_grad)});
      }),
      HasSubstr("op 4 (oW1) names a cell of another kind"));
  EXPECT_THAT(with([&](Sequence& s) { s.ops[1].lane = kCopy; }),
              HasSubstr("op 1 (0F0) computes on another lane"));
  EXPECT_THAT(with(
                  [&](Sequence& s) {
                    for (Op& op : s.ops)
                      if (op.what == OpKind::fetch && op.item == 1) op.lane = kCompute;
                  },
                  {.offload = {.optimizer = true}}),
              HasSubstr("(fA1) moves a cell on another lane than copy"))
      << "two threads would look for their cells";
  EXPECT_THAT(with([&](Sequence& s) {
                s.ops.insert(s.ops.begin() + 1, {.what = OpKind::gather, .item = 0});
                s.ops.insert(s.ops.begin() + 2,
                             {.what = OpKind::free, .item = 0, .flags = flags(CellKind::full)});
              }),
              HasSubstr("op 1 (g0) gathers bucket embedding, which is computed with as it lies"));
}

TEST(Check, RefusesAReductionOverOtherAxesThanThoseOfItsGradient) {
  for (const std::int64_t dp : {1, 2}) {
    Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .dp = dp, .tied = true});
    tables.axes.push_back({"tp", 1});
    tables.axis_sets.push_back({"tp", {1}});
    const Program program = data_parallel(tables, {.residency = {.overlap = false}});
    ASSERT_EQ(found(program), "");
    const auto with = [&](std::uint32_t op, std::int16_t along) {
      Program other = program;
      other.classes[0].ops[op].along = along;
      return found(other);
    };
    ASSERT_EQ(word(program.classes[0].ops[4], tables), "r1!");
    EXPECT_EQ(with(4, -1),
              "class 0, op 4 (r1!) runs over no axes, but the gradient of bucket norms is partial over dp\n");
    EXPECT_THAT(with(4, 1), HasSubstr("op 4 (r1!) runs over tp, but the gradient of bucket norms"));
    ASSERT_EQ(word(program.classes[0].ops[8], tables), "+norm");
    EXPECT_EQ(with(8, -1),
              "class 0, op 8 (+norm) is the last sum of Number(norm), which stays partial over dp\n");
    EXPECT_THAT(with(8, 1), HasSubstr("op 8 (+norm) is the last sum of Number(norm)"));
  }
}

TEST(Check, RefusesAGatherOverOtherAxesThanThoseItsShardIsCutOver) {
  Program program =
      data_parallel(example_tables({.num_blocks = 0, .num_micro = 1, .tied = true, .resident = false}),
                    {.residency = {.overlap = false}});
  ASSERT_EQ(word(program.classes[0].ops[1], program.tables), "g0");
  program.classes[0].ops[1].along = 0;
  EXPECT_EQ(found(program),
            "class 0, op 1 (g0) runs over dp, but the shard of bucket embedding is cut over no axes\n");
}

TEST(Check, LetsANumberBeSummedAxisByAxisButOverNoneTwice) {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  tables.axes = {{"dp", 2}, {"cp", 2}};
  tables.axis_sets = {{"data", {0, 1}}, {"dp", {0}}, {"cp", {1}}};
  for (Number& number : tables.numbers) number.partial_over = {0, 1};
  Program program = data_parallel(tables, {.residency = {.overlap = false}});
  auto& ops = program.classes[0].ops;
  ASSERT_EQ(word(ops[8], tables), "+norm");
  ops[8].along = 1;
  EXPECT_THAT(found(program),
              HasSubstr("op 8 (+norm) is the last sum of Number(norm), which stays partial over cp"));
  ops.insert(ops.begin() + 9, ops[8]);
  ops[9].along = 2;
  EXPECT_EQ(found(program), "");
  ops[9].along = 0;
  EXPECT_THAT(found(program),
              HasSubstr("op 9 (+norm) sums over data, which op 8 (+norm) has in part or whole"));
}

TEST(Check, RefusesALayoutWhoseRanksHaveNoClass) {
  Program program = data_parallel(example_tables({.dp = 2}), {});
  program.tables.class_of_rank.pop_back();
  EXPECT_THAT(found(program), HasSubstr("the axes hold 2 ranks, but 1 have a class"));
}

TEST(Check, LetsShardGradientsAccumulateOverSeveralReductions) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 2, .tied = true});
  Program program = parse(R"(
    class 0
      0: +tokens @compute over dp
      1: 0F0 @compute
      2: 1F0 @compute
      3: 1B0 @compute
      4: 0B0 @compute
      5: r0! @compute over dp
      6: r1 @compute over dp
      7: 0F1 @compute
      8: 1F1 @compute
      9: 1B1 @compute
      10: 0B1 @compute
      11: r0! @compute over dp
      12: r1! @compute over dp
      13: +loss @compute over dp
      14: +norm @compute over dp
      15: +finite @compute over dp
      16: s0 @compute
      17: s1 @compute
  )",
                          tables);
  EXPECT_EQ(found(program), "");
  Program doubled = program;
  doubled.classes[0].ops.insert(doubled.classes[0].ops.begin() + 7, program.classes[0].ops[6]);
  EXPECT_EQ(
      found(doubled),
      "class 0, op 7 (r1) reduces the gradient of bucket norms, to which nothing was added since its last "
      "reduction\n");
  std::swap(program.classes[0].ops[12], program.classes[0].ops[14]);
  EXPECT_THAT(found(program),
              HasSubstr("op 12 (+norm) uses the gradient of bucket norms before the part made by op 9 "
                        "(1B1) is reduced"));
  EXPECT_THAT(found(program),
              HasSubstr("op 14 (r1!) changes ShardGrad(norms) after op 12 (+norm) has used it"));
}

TEST(Check, AStateMayLiveOnTheHostBetweenSteps) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  Program program = data_parallel(tables, {});
  Sequence& sequence = program.classes[0];
  const auto state = static_cast<std::uint16_t>(CellKind::state);
  sequence.ops.insert(sequence.ops.end() - 2,
                      Op{.what = OpKind::fetch, .lane = kCopy, .item = 0, .flags = state});
  sequence.ops.push_back(Op{.what = OpKind::offload, .lane = kCopy, .item = 0, .flags = state});
  build_waits(sequence, tables);
  EXPECT_EQ(found(program), "");
  sequence.ops.pop_back();
  build_waits(sequence, tables);
  EXPECT_THAT(found(program), HasSubstr("leaves State(embedding) elsewhere than at the start of the step"));
}

TEST(Check, FindsARaceWithTheStepBefore) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true, .resident = false});
  Program program = data_parallel(tables, {});
  Sequence& sequence = program.classes[0];
  for (Op& op : sequence.ops)
    if (op.what == OpKind::gather) op.lane = kCopy;
  build_waits(sequence, tables);
  ASSERT_EQ(found(program), "");
  ASSERT_EQ(word(sequence.ops[1], tables), "g0");
  sequence.ops[1].num_waits = 0;
  EXPECT_THAT(found(program),
              HasSubstr("op 1 (g0) does not wait for op 14 (s0) of the step before, though both touch "
                        "Shard(embedding) on different lanes"));
}

TEST(Check, RefusesARecomputationWithoutItsInputs) {
  const Tables tables = example_tables({.num_blocks = 1, .num_micro = 1});
  Program program = data_parallel(tables, {.residency = {.overlap = false}});
  Sequence& sequence = program.classes[0];
  sequence.ops[2].flags |= kNoTape;
  EXPECT_THAT(found(program),
              HasSubstr("op 6 (1B0) reads Tape(segment 1, micro-batch 0), which is not made yet"));
  sequence.ops.insert(sequence.ops.begin() + 6, Op{.what = OpKind::recompute, .item = 1, .micro = 0});
  EXPECT_EQ(found(program), "");
}

TEST(Check, MissesTheBackwardOfAMicroBatchWhoseValuesAreFreed) {
  Program program = data_parallel(example_tables({.num_blocks = 0, .num_micro = 2, .tied = true}),
                                  {.residency = {.overlap = false}});
  auto& ops = program.classes[0].ops;
  std::erase_if(ops, [](const Op& op) { return op.what == OpKind::backward && op.micro == 1; });
  for (Op& op : ops)
    if (op.what == OpKind::forward && op.micro == 1) op.flags |= kNoTape;
  const auto loss =
      std::ranges::find_if(ops, [](const Op& op) { return op.what == OpKind::sum && op.item == 1; });
  ops.insert(loss, {.what = OpKind::free, .item = 0, .micro = 1});
  build_waits(program.classes[0], program.tables);
  EXPECT_EQ(found(program), "class 0, segment 0 runs forward for micro-batch 1, but never backward\n");
}

TEST(Check, MissesAWholeMicroBatch) {
  Program program = data_parallel(example_tables({}), {.residency = {.overlap = false}});
  std::erase_if(program.classes[0].ops, [](const Op& op) { return op.micro == 1; });
  EXPECT_THAT(found(program), HasSubstr("segment 0 runs forward for 1 of 2 micro-batches"));
}

TEST(Check, RefusesALossMadeAfterItsSum) {
  Program program =
      data_parallel(example_tables({.num_blocks = 0, .num_micro = 2}), {.residency = {.overlap = false}});
  auto& ops = program.classes[0].ops;
  const auto sum =
      std::ranges::find_if(ops, [](const Op& op) { return op.what == OpKind::sum && op.item == 1; });
  ASSERT_EQ(word(ops[6], program.tables), "1F1");
  std::rotate(ops.begin() + 6, sum, sum + 1);
  EXPECT_THAT(found(program), HasSubstr("op 7 (1F1) adds to Number(loss) after its sum"));
}

TEST(Check, HoldsTheMemoryBudget) {
  const Program program = data_parallel(example_tables({.num_blocks = 0, .num_micro = 1, .tied = true}), {});
  EXPECT_EQ(found(program, {.budget_bytes = 4264}), "");
  EXPECT_THAT(found(program, {.budget_bytes = 4263}),
              HasSubstr("op 3 (1B0) holds 4.2 KiB, more than the budget"));
}

TEST(Check, TakesWellUnderASecondForAHundredThousandOps) {
  const Program program = data_parallel(example_tables({.num_blocks = 98, .num_micro = 500}), {});
  ASSERT_GE(program.classes[0].ops.size(), 100'000u);
  const std::clock_t start = std::clock();  // processor time: other work on the machine does not count
  EXPECT_EQ(found(program), "");
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds, 5.0);
#else
  EXPECT_LT(seconds, 0.5);
#endif
}

}  // namespace
}  // namespace tessera::program
