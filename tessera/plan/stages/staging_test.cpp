#include "tessera/plan/stages/staging.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/schedule/order_csv.hpp"

namespace tessera::plan {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

spec::Run run_of(std::int64_t pp, std::int64_t num_micro = 4) {
  spec::Run run;
  run.model.layers = 6;
  run.layout.pp = pp;
  run.training.global_batch = num_micro;
  return run;
}

TEST(Staging, DealsByCostSoThatALargeHeadStandsAlone) {
  spec::Run run = run_of(2);
  run.model.vocab = 65536;  // a head as costly as all blocks
  EXPECT_EQ(stage(run).staging.first_segment, (std::vector<std::uint32_t>{0, 7, 8}));
}

TEST(Staging, AutoDealsOneStagePerRankTooWhereMoreCannotBeEven) {
  spec::Run run = run_of(2);
  run.model.vocab = 65536;
  run.layout.schedule = "auto"_schedule;
  EXPECT_EQ(stage(run).rank_of_unit, (std::vector<std::uint32_t>{0, 0, 0, 0, 0, 0, 0, 1}));
  run.layout.stages = "2,2,2,2";
  EXPECT_EQ(stage(run).staging.first_segment, (std::vector<std::uint32_t>{0, 2, 4, 6, 8}));
}

TEST(Staging, AUsersListIsTakenAsItIs) {
  spec::Run run = run_of(2);
  run.layout.stages = "5,3";
  const Staged staged = stage(run);
  EXPECT_EQ(staged.staging.first_segment, (std::vector<std::uint32_t>{0, 5, 8}));
  EXPECT_EQ(staged.rank_of_unit, (std::vector<std::uint32_t>{0, 0, 0, 0, 0, 1, 1, 1}));
}

TEST(Staging, AListThatDoesNotFitIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"5,2", "deals 7 units to 2 stages; the model has 8 (embedding, blocks, head) and the layout 2 stages"},
      {"8", "deals 8 units to 1 stages"},
      {"5,x", "is no list of counts above 0, such as 3,2,2,3"},
      {"8,0", "is no list of counts above 0"},
      {"5,3,", "is no list of counts above 0"},
  };
  for (const auto& [list, message] : cases) {
    spec::Run run = run_of(2);
    run.layout.stages = list;
    EXPECT_THAT([&] { stage(run); }, ThrowsMessage<UserError>(HasSubstr(message))) << list;
  }
}

TEST(Staging, EveryScheduleIsHeldToTheLimitOnActivations) {
  spec::Run run = run_of(2);
  run.layout.max_activations = 2;
  EXPECT_NO_THROW(stage(run));
  run.layout.schedule = "gpipe"_schedule;
  EXPECT_THAT([&] { stage(run); }, ThrowsMessage<UserError>(HasSubstr("schedule gpipe holds 4 activations")));
}

TEST(Staging, DualpipeWithFewMicroBatchesSaysWhatRunsInstead) {
  spec::Run run = run_of(2, 3);
  run.layout.schedule = "dualpipe-v"_schedule;
  EXPECT_THAT(stage(run).note, HasSubstr("zb-v runs: dualpipe-v needs at least 4 micro-batches"));
  std::string note;
  compile(run, &note);
  EXPECT_EQ(note, stage(run).note);
}

TEST(Staging, AScheduleOfAFileMustHaveTheRunsRanksAndMicroBatchesAndHoldNoMoreThanItsLimit) {
  const std::string path = testing::TempDir() + "order.csv";
  spec::Run run = run_of(2);
  std::ofstream(path) << program::to_csv(stage(run).order);
  run.layout.schedule_file = path;
  EXPECT_EQ(stage(run).order, stage(run_of(2)).order);
  run.training.global_batch = 5;
  EXPECT_THAT(
      [&] { stage(run); },
      ThrowsMessage<UserError>(HasSubstr("has 2 ranks and 4 micro-batches, the run layout.pp = 2 and 5")));
  run = run_of(2);
  run.layout.schedule_file = path;
  run.layout.max_activations = 1;
  EXPECT_THAT([&] { stage(run); }, ThrowsMessage<UserError>(HasSubstr("order.csv holds 2 activations")));
  run.layout.schedule_file = path + ".absent";
  EXPECT_THAT([&] { stage(run); }, ThrowsMessage<UserError>(HasSubstr("is no file")));
}

}  // namespace
}  // namespace tessera::plan
