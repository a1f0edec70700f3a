#include "tessera/plan/stages/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/program/schedule/walk_order.hpp"

namespace tessera::plan {
namespace {

using spec::Schedule;
using testing::HasSubstr;
using testing::ThrowsMessage;

program::Pipeline pipeline_of(std::uint32_t num_virtual, std::int32_t num_micro = 8) {
  return {4, num_virtual, num_micro, program::even_costs(4, num_virtual, {1, 1, 1})};
}

double makespan(Schedule name, const program::Pipeline& pipeline) {
  return program::walk(schedule(name, pipeline).order, pipeline.costs).makespan;
}

TEST(Schedule, EveryNameOfARunFileLeadsToItsOrder) {
  EXPECT_EQ(makespan("gpipe"_schedule, pipeline_of(1)), 33);
  EXPECT_EQ(makespan("1f1b"_schedule, pipeline_of(1)), 33);
  EXPECT_EQ(makespan("pipedream-2bw"_schedule, pipeline_of(1)), 33);
  EXPECT_EQ(makespan("zb-h1"_schedule, pipeline_of(1)), 27);
  EXPECT_EQ(makespan("interleaved"_schedule, pipeline_of(2)), 28.5);
  EXPECT_EQ(makespan("bfs"_schedule, pipeline_of(2)), 28.5);
  EXPECT_EQ(makespan("zb-v"_schedule, pipeline_of(2)), 25.5);
  EXPECT_EQ(makespan("dualpipe-v"_schedule, pipeline_of(2)), 25.5);
  EXPECT_EQ(makespan("auto"_schedule, pipeline_of(2)), 25.5);
  EXPECT_EQ(schedule("dualpipe-v"_schedule, pipeline_of(2)).note, "");
  EXPECT_EQ(schedule("auto"_schedule, pipeline_of(2)).note, "auto: zb-v");
}

TEST(Schedule, TooFewMicroBatchesForDualPipeVRunZbVAndSaySo) {
  const Scheduled found = schedule("dualpipe-v"_schedule, pipeline_of(2, 7));
  EXPECT_EQ(found.order, program::zero_bubble_v(pipeline_of(2, 7)));
  EXPECT_EQ(found.note, "zb-v runs: dualpipe-v needs at least 8 micro-batches (2 per rank), not 7");
}

TEST(Schedule, AWrongNumberOfVirtualStagesIsToldWithTheRightOne) {
  EXPECT_THAT([] { schedule("zb-v"_schedule, pipeline_of(1)); },
              ThrowsMessage<UserError>(
                  HasSubstr("zb-v has 2 virtual stages per rank, not 1: write virtual_stages = 2")));
  EXPECT_THAT(
      [] { schedule("1f1b"_schedule, pipeline_of(2)); },
      ThrowsMessage<UserError>(HasSubstr("virtual_stages = 1, or take another: interleaved, bfs, auto")));
  EXPECT_THAT([] { schedule("auto"_schedule, pipeline_of(2), 1); },
              ThrowsMessage<UserError>(HasSubstr("which is 2")));
}

TEST(Schedule, WhatHoldsMoreThanTheLimitIsRefused) {
  EXPECT_NO_THROW(schedule("1f1b"_schedule, pipeline_of(1), 4));
  EXPECT_THAT([] { schedule("1f1b"_schedule, pipeline_of(1), 3); },
              ThrowsMessage<UserError>(HasSubstr(
                  "schedule 1f1b holds 4 activations of a stage on a rank, more than the limit of 3")));
  EXPECT_THAT([] { hold_to_limit(program::gpipe(pipeline_of(1)), 7, "mine.csv"); },
              ThrowsMessage<UserError>(HasSubstr("mine.csv holds 8 activations")));
}

}  // namespace
}  // namespace tessera::plan
