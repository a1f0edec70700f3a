#include "tessera/program/ir/effects.hpp"

#include <gtest/gtest.h>

#include "tessera/program/testing/examples.hpp"

namespace tessera::program {
namespace {

const Tables kTables = example_tables({.num_blocks = 1});
const Tables kGathered = example_tables({.num_blocks = 1, .resident = false});

Cell value(std::uint32_t v, std::int32_t m) { return {CellKind::value, v, m}; }
Cell gradient(std::uint32_t v, std::int32_t m) { return {CellKind::gradient, v, m}; }
Cell of_step(CellKind kind, std::uint32_t item) { return {kind, item, kOfStep}; }

TEST(Effects, ForwardReadsValuesAndWeightsAndMakesValuesAndTape) {
  Op op{.what = OpKind::forward, .item = 1, .micro = 1};
  const Effects resident = effects(op, kTables);
  EXPECT_EQ(resident.reads,
            (std::vector<Cell>{value(0, 1), of_step(CellKind::shard, 1), of_step(CellKind::shard, 3)}));
  EXPECT_EQ(resident.makes, (std::vector<Cell>{value(1, 1), {CellKind::tape, 1, 1}}));
  EXPECT_EQ(effects(op, kGathered).reads[1], of_step(CellKind::full, 1));
  op.flags = kNoTape;
  EXPECT_EQ(effects(op, kTables).makes, std::vector<Cell>{value(1, 1)});
}

TEST(Effects, BackwardEndsTapeGradientsOutAndValuesItIsTheLastToRead) {
  const Effects e = effects({.what = OpKind::backward, .item = 1, .micro = 0}, kTables);
  EXPECT_EQ(
      e.reads,
      (std::vector<Cell>{
          {CellKind::tape, 1, 0}, gradient(1, 0), of_step(CellKind::shard, 1), of_step(CellKind::shard, 3)}));
  EXPECT_EQ(e.adds, (std::vector<Cell>{gradient(0, 0), of_step(CellKind::weight_grad, 1),
                                       of_step(CellKind::weight_grad, 3)}));
  EXPECT_EQ(e.ends, (std::vector<Cell>{{CellKind::tape, 1, 0}, gradient(1, 0), value(0, 0)}));
}

TEST(Effects, AValueReadTwiceEndsWithTheFirstSegmentsBackward) {
  Tables tables = example_tables({.num_blocks = 2});
  tables.segments[3].reads.push_back(0);
  assign_ends(tables);
  EXPECT_EQ(tables.segments[1].ends, std::vector<std::uint32_t>{0});
  EXPECT_EQ(tables.segments[3].ends, std::vector<std::uint32_t>{2});
}

TEST(Effects, LossIsAddedForwardAndDividedByTokensBackward) {
  EXPECT_EQ(effects({.what = OpKind::forward, .item = 2, .micro = 0}, kTables).adds,
            std::vector<Cell>{of_step(CellKind::number, 1)});
  const Effects backward = effects({.what = OpKind::backward, .item = 2, .micro = 0}, kTables);
  EXPECT_EQ(backward.reads.back(), of_step(CellKind::number, 0));
}

TEST(Effects, NormReadsTheGradientOfEveryTrainableBucket) {
  Tables tables = kTables;
  tables.buckets[1].trainable = false;
  EXPECT_EQ(effects({.what = OpKind::sum, .item = 2}, tables).reads,
            (std::vector<Cell>{of_step(CellKind::shard_grad, 0), of_step(CellKind::shard_grad, 2),
                               of_step(CellKind::shard_grad, 3)}));
  EXPECT_TRUE(effects({.what = OpKind::sum, .item = 0}, tables).reads.empty());
}

TEST(Effects, StepWaitsForNormAndFiniteAndEndsItsGradient) {
  const Effects e = effects({.what = OpKind::step, .item = 2}, kTables);
  EXPECT_EQ(e.reads, (std::vector<Cell>{of_step(CellKind::shard_grad, 2), of_step(CellKind::state, 2),
                                        of_step(CellKind::number, 2), of_step(CellKind::number, 3)}));
  EXPECT_EQ(e.adds, (std::vector<Cell>{of_step(CellKind::shard, 2), of_step(CellKind::state, 2)}));
  EXPECT_EQ(e.ends, std::vector<Cell>{of_step(CellKind::shard_grad, 2)});
}

TEST(Buckets, LieSideBySideAndArePaddedAtTheEnd) {
  Bucket bucket{.name = "b", .parameters = {{.name = "p", .shape = {3, 5}}, {.name = "q", .shape = {60}}}};
  lay_out(bucket);
  EXPECT_EQ(bucket.parameters[0].offset, 0);
  EXPECT_EQ(bucket.parameters[1].offset, 15);
  EXPECT_EQ(bucket.elements, 128);
}

}  // namespace
}  // namespace tessera::program
