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

Step step(std::vector<std::string> reads, std::vector<std::string> writes, bool is_linear = false) {
  return {.name = "", .reads = std::move(reads), .writes = std::move(writes), .is_linear = is_linear};
}
Step leave(const std::string& value) {
  return {.name = "leave", .reads = {value}, .writes = {value}, .kind = Step::Kind::leave};
}

std::vector<bool> needed(const std::vector<Step>& steps) {
  std::vector<const Step*> pointers;
  for (const Step& each : steps) pointers.push_back(&each);
  return results_needed(pointers);
}

using Expected = std::vector<bool>;

TEST(Recomputation, ResultsAreNeededByBackwardsThroughLinearSteps) {
  const std::vector<Step> branch = {step({"x"}, {"sums"}), leave("sums"), step({"sums", "x"}, {"y"}, true)};
  EXPECT_EQ(needed(branch), (Expected{false, false, false}));
  std::vector<Step> with_norm = branch;  // whose backward needs what it reads
  with_norm.push_back(step({"y"}, {"normed"}));
  EXPECT_EQ(needed(with_norm), (Expected{true, true, true, false}));
  // As after a branch of OLMo 2: the norm comes before the sum.
  EXPECT_EQ(needed({branch[0], branch[1], step({"sums"}, {"normed"}), step({"normed", "x"}, {"y"}, true)}),
            (Expected{true, true, false, false}));
}

// `x` is written anew: what it was before is needed, what it is now is not.
TEST(Recomputation, ResultsAreTheLastOfTheirName) {
  EXPECT_EQ(needed({step({}, {"x"}), step({"x"}, {"y"}), step({"y"}, {"x"}, true)}),
            (Expected{true, false, false}));
}

TEST(Recomputation, WorkOfUnneededResultsIsOmitted) {
  const Collective gather{CollectiveKind::all_gather, 0, 8}, sum{CollectiveKind::all_reduce, 1, 16};
  Piece first{.name = "first",
              .flops = 10,
              .bytes_read = 6,
              .bytes_written = 4,
              .steps = {step({"x"}, {"y"})},
              .collectives = {gather, sum},
              .result_work = {{.step = 0, .first_call = 1, .num_calls = 1, .flops = 7, .bytes = 3}}};
  const auto alone = recomputed(std::vector{first});
  EXPECT_EQ(alone[0].collectives, std::vector{gather});
  EXPECT_EQ(alone[0].flops, 3);
  EXPECT_EQ(alone[0].bytes, 7);
  const Piece second{.name = "second", .steps = {step({"y"}, {"z"})}, .collectives = {gather}};
  const auto both = recomputed(std::vector{first, second});
  EXPECT_EQ(both[0].collectives, (std::vector{gather, sum}));
  EXPECT_EQ(both[0].flops, 10);
  EXPECT_EQ(both[1].collectives, std::vector{gather});
  first.result_work[0] = {.first_call = 0, .num_calls = 1, .is_kept = true};
  EXPECT_EQ(recomputed(std::vector{first, second})[0].collectives, std::vector{sum});
}

}  // namespace
}  // namespace tessera::program
