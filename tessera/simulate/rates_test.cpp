#include "tessera/simulate/rates.hpp"

#include <gtest/gtest.h>

#include "tessera/program/testing/examples.hpp"

namespace tessera::simulate {
namespace {

using program::CellKind;
using program::Op;
using program::OpKind;
using program::Phase;

// Round numbers: 100 FLOP/s, 10 bytes/s in memory, 5 bytes/s on a link, 1 s before the first byte.
const Rates kRates{.flops = 100, .memory_bytes = 10, .link_bytes = 5, .link_seconds = 1};

program::Tables tables_of(std::int64_t dp) {
  program::Tables tables = program::example_tables({.dp = dp});
  tables.units[1].pieces = {{.name = "a",
                             .flops = 50,
                             .backward_flops = 150,
                             .bytes_read = 10,
                             .bytes_written = 20,
                             .work_bytes = 1},
                            {.name = "b", .flops = 100, .backward_flops = 200}};
  tables.segments[1].num_pieces = 2;
  return tables;
}

double seconds(const Op& op, std::int64_t dp = 2) {
  double total = 0;
  for (const Phase& phase : cost(op, tables_of(dp), kRates).phases) total += phase.seconds;
  return total;
}

TEST(Rates, ComputeIsFlopsAndTraffic) {
  const auto compute = [](OpKind what) { return seconds({.what = what, .item = 1, .micro = 0}); };
  EXPECT_DOUBLE_EQ(compute(OpKind::forward), 1.5 + 3);
  EXPECT_DOUBLE_EQ(compute(OpKind::backward_input), 0.75 + 3 + 2);  // piece b has no weights
  EXPECT_DOUBLE_EQ(compute(OpKind::backward_weight), 0.75 + 3);
  EXPECT_DOUBLE_EQ(compute(OpKind::backward), 3.5 + 6);
  EXPECT_EQ(cost(tables_of(2).units[1], kRates), (program::StageCost{4.5, 5.75, 3.75}));
}

TEST(Rates, CollectivesAreRings) {
  // A gradient of 64 elements of 4 bytes.
  const Op reduce{.what = OpKind::reduce, .item = 1, .along = 0};
  EXPECT_DOUBLE_EQ(seconds(reduce, 2), 2 * (256 / 2 / 5.0 + 1));
  EXPECT_DOUBLE_EQ(seconds(reduce, 4), 2 * (256 * 3 / 4 / 5.0 + 3));
  EXPECT_DOUBLE_EQ(seconds(reduce, 1), 0);
  EXPECT_EQ(cost(reduce, tables_of(2), kRates).phases[0].axes, 0);
}

TEST(Rates, WithTreesAnAllReduceOfFewBytesTakesFewerRounds) {
  Rates rates = kRates;
  rates.trees = true;
  const auto of = [&](const Op& op, std::int64_t dp) {
    return total_seconds(cost(op, tables_of(dp), rates));
  };
  const Op reduce{.what = OpKind::reduce, .item = 1, .along = 0}, sum{.what = OpKind::sum, .along = 0};
  EXPECT_DOUBLE_EQ(of(reduce, 2), 2 * (256 / 2 / 5.0 + 1));  // a ring is shorter
  EXPECT_DOUBLE_EQ(of(sum, 1024), 2 * 8 / 5.0 + 2 * 10);
}

TEST(Rates, ATransferIsItsBytesAndTheWayThere) {
  EXPECT_DOUBLE_EQ(seconds({.what = OpKind::send, .item = 1, .micro = 0, .along = 0, .hop = 1}),
                   1000 / 5.0 + 1);
}

TEST(Rates, AStepMovesGradientParametersAndState) {
  EXPECT_DOUBLE_EQ(seconds({.what = OpKind::step, .item = 1}), (256 + 2 * (256 + 512)) / 10.0);
}

TEST(Rates, ACollectiveInsideAPieceIsAPhaseOnItsLink) {
  program::Tables tables = tables_of(2);
  tables.units[1].pieces[0].collectives = {{program::CollectiveKind::all_gather, 0, 10}};
  const auto phases = [&](OpKind what) {
    return cost({.what = what, .item = 1, .micro = 0}, tables, kRates).phases;
  };
  EXPECT_EQ(phases(OpKind::forward), (std::vector<Phase>{{-1, 3.5}, {0, 2}, {-1, 1}}));
  EXPECT_EQ(phases(OpKind::backward).size(), 1u);
  tables.units[1].pieces[0].backward_collectives = tables.units[1].pieces[0].collectives;
  EXPECT_EQ(phases(OpKind::backward).size(), 3u);
  EXPECT_EQ(phases(OpKind::backward_weight).size(), 1u);
}

}  // namespace
}  // namespace tessera::simulate
