#include "tessera/program/ir/work.hpp"

#include <gtest/gtest.h>

namespace tessera::program {
namespace {

Program two_classes(std::vector<OpKind> first, std::vector<OpKind> second) {
  Program program;
  program.tables.units = {{"a", {{.name = "x", .flops = 10, .backward_flops = 20}}},
                          {"b", {{.name = "y", .flops = 3, .backward_flops = 0}, {.name = "z", .flops = 4}}}};
  program.tables.segments = {{.unit = 0, .num_pieces = 1}, {.unit = 1, .num_pieces = 2}};
  program.tables.class_of_rank = {0, 0, 1};
  program.classes.resize(2);
  for (const OpKind what : first) program.classes[0].ops.push_back({.what = what, .item = 0, .micro = 0});
  for (const OpKind what : second) program.classes[1].ops.push_back({.what = what, .item = 1, .micro = 0});
  return program;
}

TEST(Work, CountsEveryRankAndEachPieceOnce) {
  const auto program = two_classes({OpKind::forward, OpKind::backward, OpKind::reduce}, {OpKind::forward});
  EXPECT_EQ(step_flops(program), (StepFlops{2 * 30 + 7, 2 * 30 + 7}));
}

TEST(Work, RecomputationIsDoneByTheHardwareButNotNeededByTheModel) {
  const auto program = two_classes({OpKind::forward, OpKind::recompute, OpKind::backward}, {});
  EXPECT_EQ(step_flops(program), (StepFlops{2 * 30, 2 * 40}));
}

TEST(Work, WhatSeveralRanksComputeAlikeIsNotNeededByTheModel) {
  auto program = two_classes({OpKind::forward, OpKind::backward}, {OpKind::forward});
  program.tables.units[0].pieces[0].repeated_flops = 4;
  EXPECT_EQ(step_flops(program), (StepFlops{2 * (30 - 12) + 7, 2 * 30 + 7}));
  program =
      two_classes({OpKind::forward, OpKind::recompute, OpKind::backward_input, OpKind::backward_weight}, {});
  program.tables.units[0].pieces[0].repeated_flops = 4;
  EXPECT_EQ(step_flops(program), (StepFlops{2 * (30 - 12), 2 * 40}));
}

TEST(Work, TheHalvesOfABackwardAreAWholeOne) {
  const auto halves = two_classes({}, {OpKind::backward_input, OpKind::backward_weight});
  EXPECT_EQ(step_flops(halves), step_flops(two_classes({}, {OpKind::backward})));
}

}  // namespace
}  // namespace tessera::program
