// Small programs whose times can be worked out by hand.
#include "tessera/simulate/simulate.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/simulate/report.hpp"

namespace tessera::simulate {
namespace {

using program::communication;
using program::kCompute;
using program::Op;
using program::OpKind;
using program::Program;
using program::Sequence;
using program::Span;
using Spans = std::vector<Span>;

// Axis sets: 0 and 1 over axis pp, 2 over axis dp.
enum Set : std::int16_t { kPp, kPpAgain, kDp };

Program program_of(std::vector<std::vector<Op>> classes, std::vector<program::Cost> costs,
                   std::int64_t num_stages = 2) {
  Program program;
  program.tables.axes = {{"pp", num_stages}, {"dp", 1}};
  program.tables.axis_sets = {{"pp", {0}}, {"pp.again", {0}}, {"dp", {1}}};
  program.tables.costs = std::move(costs);
  for (std::uint32_t c = 0; c < classes.size(); ++c) program.tables.class_of_rank.push_back(c);
  for (auto& ops : classes) program.classes.push_back({std::move(ops), {}});
  program.tables.units = {{.name = "unit"}};
  program.tables.segments.resize(1);
  return program;
}

Timeline simulated(const Program& program) { return simulate(program, table_costs(program)); }

Op compute(std::uint32_t cost, OpKind what = OpKind::forward) {
  return {.what = what, .micro = 0, .cost = cost};
}
Op on_copy_lane(std::uint32_t cost) { return {.what = OpKind::free, .lane = program::kCopy, .cost = cost}; }
Op send(Set set, std::int16_t hop, std::uint32_t cost) {
  return {
      .what = OpKind::send, .lane = communication(set), .micro = 0, .along = set, .hop = hop, .cost = cost};
}
Op receive(Set set, std::int16_t hop, std::uint32_t cost) {
  return {.what = OpKind::receive,
          .lane = communication(set, 1),
          .micro = 0,
          .along = set,
          .hop = hop,
          .cost = cost};
}
Op sum(Set set, std::uint32_t cost) {
  return {.what = OpKind::sum, .lane = communication(set), .along = set, .cost = cost};
}
void wait(Sequence& sequence, std::uint32_t op, std::uint32_t target) {
  sequence.ops[op].first_wait = static_cast<std::uint32_t>(sequence.waits.size());
  sequence.ops[op].num_waits = 1;
  sequence.waits.push_back(target);
}
program::Cost seconds(double s) { return {.phases = {{-1, s}}}; }
program::Cost on_link(std::int16_t axes, double s) { return {.phases = {{axes, s}}}; }

TEST(Simulate, OpsOfALaneRunOneAfterTheOtherAndLanesBesideEachOther) {
  const Timeline timeline =
      simulated(program_of({{compute(0), on_copy_lane(1), compute(1)}}, {seconds(2), seconds(0.5)}, 1));
  EXPECT_EQ(timeline.classes[0], (Spans{{0, 2}, {0, 0.5}, {2, 2.5}}));
}

TEST(Simulate, AnOpWaitsForOthersOfThisStepOnly) {
  Program program =
      program_of({{compute(0), on_copy_lane(1), on_copy_lane(1)}}, {seconds(2), seconds(0.5)}, 1);
  wait(program.classes[0], 1, 0);
  wait(program.classes[0], 2, 2 | program::kPreviousStep);
  EXPECT_EQ(simulated(program).classes[0], (Spans{{0, 2}, {2, 2.5}, {2.5, 3}}));
}

TEST(Simulate, ATransferStartsWhenBothSidesAreThereAndEndsOnBoth) {
  Program program = program_of({{compute(0), send(kPp, 1, 1)}, {receive(kPp, -1, 1), compute(0)}},
                               {seconds(2), on_link(kPp, 0.5)});
  wait(program.classes[0], 1, 0);
  wait(program.classes[1], 1, 0);
  const Timeline timeline = simulated(program);
  EXPECT_EQ(timeline.classes[0], (Spans{{0, 2}, {2, 2.5}}));
  EXPECT_EQ(timeline.classes[1], (Spans{{2, 2.5}, {2.5, 4.5}}));
  EXPECT_EQ(timeline.makespan, 4.5);
}

TEST(Simulate, MembersOfAGroupStartTogetherAndTakeTheLongestCost) {
  Program program = program_of({{compute(0), sum(kPp, 1)}, {sum(kPp, 2)}},
                               {seconds(2), on_link(kPp, 0.5), on_link(kPp, 0.75)});
  wait(program.classes[0], 1, 0);
  const Timeline timeline = simulated(program);
  EXPECT_EQ(timeline.classes[0][1], (Span{2, 2.75}));
  EXPECT_EQ(timeline.classes[1][0], (Span{2, 2.75}));
}

// Rank 1 of three sends both ways, on axis sets of their own over one axis.
TEST(Simulate, TwoTransfersOutOfOneRankShareItsLink) {
  Program program =
      program_of({{receive(kPpAgain, 1, 0)}, {send(kPp, 1, 0), send(kPpAgain, -1, 0)}, {receive(kPp, -1, 0)}},
                 {on_link(kPp, 1)}, 3);
  EXPECT_EQ(simulated(program).classes[1], (Spans{{0, 2}, {0, 2}}));
}

TEST(Simulate, ALinkIsSharedOnlyWhileBothUseIt) {
  Program program = program_of({{receive(kPpAgain, 1, 0)},
                                {send(kPp, 1, 0), compute(1), send(kPpAgain, -1, 0)},
                                {receive(kPp, -1, 0)}},
                               {on_link(kPp, 1), seconds(0.5)}, 3);
  wait(program.classes[1], 2, 1);
  // Half of the first is done at 0.5; then both halve their speed until it ends at 1.5, with half of the
  // second left.
  EXPECT_EQ(simulated(program).classes[1], (Spans{{0, 1.5}, {0, 0.5}, {0.5, 2}}));
}

TEST(Simulate, OutAndInAreTwoLinks) {
  Program program =
      program_of({{send(kPp, 1, 0), receive(kPpAgain, 1, 0)}, {receive(kPp, -1, 0), send(kPpAgain, -1, 0)}},
                 {on_link(kPp, 1)});
  EXPECT_EQ(simulated(program).classes[0], (Spans{{0, 1}, {0, 1}}));
}

// Ranks 0 and 2 send to rank 1.
TEST(Simulate, TwoTransfersIntoOneRankShareItsLink) {
  Program program =
      program_of({{send(kPp, 1, 0)}, {receive(kPp, -1, 0), receive(kPpAgain, 1, 0)}, {send(kPpAgain, -1, 0)}},
                 {on_link(kPp, 1)}, 3);
  EXPECT_EQ(simulated(program).classes[1], (Spans{{0, 2}, {0, 2}}));
}

TEST(Simulate, LinksOfDifferentAxesAreNotShared) {
  Program program =
      program_of({{send(kPp, 1, 0), sum(kDp, 1)}, {receive(kPp, -1, 0)}}, {on_link(kPp, 1), on_link(kDp, 1)});
  EXPECT_EQ(simulated(program).classes[0], (Spans{{0, 1}, {0, 1}}));
}

TEST(Simulate, AnOpHoldsALinkDuringItsPhaseThereOnly) {
  const program::Cost closed{.phases = {{-1, 1}, {kDp, 1}, {-1, 1}}};
  Program program = program_of({{compute(0), sum(kDp, 1)}}, {closed, on_link(kDp, 2)}, 1);
  // The sum is alone for a second, then both need two seconds for their last one.
  EXPECT_EQ(simulated(program).classes[0], (Spans{{0, 4}, {0, 3}}));
}

TEST(Simulate, APhaseOfNoSecondsIsPassed) {
  const program::Cost closed{.phases = {{-1, 1}, {kDp, 0}, {-1, 1}}};
  EXPECT_EQ(simulated(program_of({{compute(0)}}, {closed}, 1)).classes[0], (Spans{{0, 2}}));
}

TEST(Simulate, InOneQueueCommunicationKeepsItsOrderOfIssue) {
  // Beside each other 3 s; one after the other 2 + 3.
  Program program = program_of({{sum(kDp, 0), sum(kPp, 1)}}, {seconds(2), seconds(3)}, 1);
  program.classes[0].ops[0].lane = communication(kDp);
  program.classes[0].ops[1].lane = communication(kPp);
  const auto end = [&](Queues queues) {
    return simulate(program, table_costs(program), queues).classes[0][1].end;
  };
  EXPECT_EQ(end(Queues::one_per_lane), 3);
  EXPECT_EQ(end(Queues::one_per_device), 5);
}

TEST(Simulate, AProgramWithoutCostsTakesNoTime) {
  const Program program = program::data_parallel(program::example_tables({}), {});
  const Timeline timeline = simulated(program);
  EXPECT_EQ(timeline.makespan, 0);
  EXPECT_EQ(report(program, timeline).bubble, 0);
}

TEST(Simulate, AProgramThatGetsStuckIsABug) {
  Program program = program_of(
      {{receive(kPp, 1, 0), send(kPp, 1, 0)}, {receive(kPp, -1, 0), send(kPp, -1, 0)}}, {seconds(1)});
  for (Sequence& sequence : program.classes) wait(sequence, 1, 0);
  EXPECT_THROW(simulated(program), Bug);
}

// Forwards take 1, backwards 2, reductions 1.5, steps 10: three segments, one micro-batch. The last backward
// ends at 9, with two of four reductions under it.
TEST(Simulate, ReductionsRunUnderTheBackwardAndStepsAreNotInTheMakespan) {
  const Program program =
      program::data_parallel(program::example_tables({.num_blocks = 1, .num_micro = 1}), {});
  int num_asked = 0;
  const OpCosts costs = costs_by(program, [&](std::uint32_t, const Op& op) {
    ++num_asked;
    if (op.what == OpKind::forward) return seconds(1);
    if (op.what == OpKind::backward) return seconds(2);
    if (op.what == OpKind::reduce) return seconds(1.5);
    return seconds(op.what == OpKind::step ? 10 : 0);
  });
  EXPECT_EQ(num_asked, 3 + 3 + 4 + 4 + 4);
  const Timeline timeline = simulate(program, costs);
  EXPECT_EQ(timeline.makespan, 9);
  const auto span_of = [&](const std::string& word) {
    const auto& ops = program.classes[0].ops;
    const auto op =
        std::ranges::find_if(ops, [&](const Op& o) { return program::word(o, program.tables) == word; });
    return timeline.classes[0].at(static_cast<std::size_t>(op - ops.begin()));
  };
  EXPECT_EQ(span_of("r2!"), (Span{5, 6.5}));
  EXPECT_EQ(span_of("r0!"), (Span{10, 11.5}));  // after those of the block and the norms
  EXPECT_EQ(span_of("s0"), (Span{11.5, 21.5}));
}

TEST(Simulate, MicroBatchesOfAnOpAreAskedForOnce) {
  const Program program =
      program::data_parallel(program::example_tables({.num_blocks = 1, .num_micro = 50}), {});
  int num_asked = 0;
  costs_by(program, [&](std::uint32_t, const Op&) { return ++num_asked, seconds(1); });
  EXPECT_EQ(num_asked, 3 + 3 + 4 + 4 + 4);
}

TEST(Report, CountsIdleTimeOverAllRanksAndActivationsUntilTheWeightHalf) {
  Program program =
      program_of({{compute(0), compute(0), compute(0, OpKind::backward), compute(0, OpKind::backward)},
                  {compute(0), compute(0, OpKind::backward_input), compute(0, OpKind::backward_weight)}},
                 {seconds(1)}, 3);
  program.tables.class_of_rank = {0, 1, 1};
  const Report found = report(program, simulated(program));
  EXPECT_EQ(found.makespan, 4);
  EXPECT_EQ(found.classes, (std::vector<Report::OfClass>{{1, 1, 2}, {2, 0.75, 1}}));
  EXPECT_DOUBLE_EQ(found.bubble, 2.0 / 12);
}

}  // namespace
}  // namespace tessera::simulate
