#include "tessera/base/process/activity.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace tessera {
namespace {

TEST(ActivityLog, KeepsTheLastActivitiesOfEachLaneOldestFirst) {
  const auto log = std::make_unique<ActivityLog>();
  EXPECT_EQ(log->state(), RankState{});
  log->name_lane(2, 1, 0);
  for (int op = 0; op < 20; ++op) {
    log->issue(0, Doing::computing, op, 7, op + 0.25);
    log->start(0, op + 0.5);
    if (op < 19) log->end(0, op + 1.0);
  }
  log->issue(2, Doing::communicating, 30, 7, 5.0);
  log->beat(21.0, 4096);
  const RankState state = log->state();
  ASSERT_EQ(state.lanes.size(), 2u);
  EXPECT_EQ(state.lanes[0].recent.size(), ActivityLog::kRecent);
  EXPECT_EQ(state.lanes[0].recent.front().op, 4);
  EXPECT_EQ(*state.now(), (Activity{Doing::computing, 19, 7, 19.25, 19.5, 0}));
  EXPECT_TRUE(state.now()->under_way());
  EXPECT_EQ(state.lanes[1].axes, 1);
  EXPECT_FALSE(state.lanes[1].recent.back().under_way());  // issued, waiting for another lane
  EXPECT_EQ(state.resident_bytes, 4096);
}

TEST(ActivityLog, OnlyWhatShouldBeShortCountsAsWaiting) {
  const auto log = std::make_unique<ActivityLog>();
  EXPECT_EQ(log->waiting_since_seconds(), 0);
  log->issue(0, Doing::computing, 0, 1, 1);
  log->start(0, 2);
  log->issue(1, Doing::communicating, 1, 1, 3);
  EXPECT_EQ(log->waiting_since_seconds(), 0);  // its turn has come, but it waits for this rank's own lane
  log->start(1, 4);
  EXPECT_EQ(log->waiting_since_seconds(), 4);
  EXPECT_EQ(log->progress_seconds(), 4);
  EXPECT_EQ(log->state().progress_seconds(), 4);
  log->end(1, 5);
  EXPECT_EQ(log->waiting_since_seconds(), 0);
  EXPECT_EQ(log->progress_seconds(), 5);
  EXPECT_EQ(log->state().progress_seconds(), 5);
}

TEST(ActivityLog, ARankThatPreparesGetsOn) {
  const auto log = std::make_unique<ActivityLog>();
  log->issue(0, Doing::preparing, -1, 0, 1);
  log->start(0, 1);
  EXPECT_GT(log->progress_seconds(), 1e9);
  log->end(0, 3);
  EXPECT_EQ(log->progress_seconds(), 3);
}

TEST(ActivityLog, TheFirstErrorStays) {
  const auto log = std::make_unique<ActivityLog>();
  log->fail("the cause", 2);
  log->fail("what followed", 75);
  EXPECT_EQ(log->state().error, "the cause");
  EXPECT_EQ(log->state().error_code, 2);
}

TEST(RankState, ReadsBackOnAnotherClock) {
  RankState state{.beat_seconds = 99, .resident_bytes = 5, .lanes = {}, .error = "words", .error_code = 70};
  state.lanes.push_back(
      {-1, 0, {{Doing::computing, 3, 2, 97, 98, 99}, {Doing::reading_data, -1, 3, 99, 0, 0}}});
  state.lanes.push_back({4, 1, {}});
  const std::string bytes = to_bytes(state, 100);
  RankState expected = state;
  expected.beat_seconds = 1099;
  expected.lanes[0].recent[0].issued_seconds = 1097;
  expected.lanes[0].recent[0].started_seconds = 1098;
  expected.lanes[0].recent[0].ended_seconds = 1099;
  expected.lanes[0].recent[1].issued_seconds = 1099;
  EXPECT_EQ(parse_rank_state(bytes, 1100), expected);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(parse_rank_state(std::string_view(bytes).substr(0, size), 0)) << size;
  EXPECT_FALSE(parse_rank_state(bytes + 'x', 0));
}

}  // namespace
}  // namespace tessera
