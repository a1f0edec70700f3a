#include "tessera/launch/watch/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class WatchdogTest : public testing::Test {
 protected:
  WatchdogTest() {
    RankDescriber describer = plain_describer();
    describer.culprit = [](std::span<const RankState>, double) { return Culprit{2, "rank 2 is the one"}; };
    watchdog_.emplace(3, 0.8, describer, [this](const std::string& message) { message_.set_value(message); });
  }
  ~WatchdogTest() override { watchdog_.reset(); }

  void all_report(double seconds_ago = 0, const Activity& activity = {}) {
    for (int rank = 0; rank < 3; ++rank) {
      RankState state;
      state.beat_seconds = now_seconds() - seconds_ago;
      state.lanes.push_back({-1, 0, {activity}});
      watchdog_->hear(rank, to_bytes(state, now_seconds()));
    }
  }
  void report_error(int rank, const std::string& error, int code) {
    RankState state;
    state.beat_seconds = now_seconds();
    state.error = error;
    state.error_code = code;
    watchdog_->hear(rank, to_bytes(state, now_seconds()));
  }
  std::string message(std::chrono::milliseconds patience = 5s) {
    auto future = message_.get_future();
    return future.wait_for(patience) == std::future_status::ready ? future.get() : "(nothing)";
  }

  std::promise<std::string> message_;
  std::optional<Watchdog> watchdog_;
};

TEST_F(WatchdogTest, ASilentJobThatNeverReportedIsNotAHang) { EXPECT_EQ(message(1200ms), "(nothing)"); }

TEST_F(WatchdogTest, ARankThatFallsSilentIsAHang) {
  all_report();
  EXPECT_THAT(message(), HasSubstr("no progress for 0.8 s: rank 2 is the one"));
}

TEST_F(WatchdogTest, ARankThatHasFinishedIsNotMissed) {
  all_report(0, {Doing::finished, -1, 0, now_seconds(), now_seconds(), 0});
  EXPECT_EQ(message(1500ms), "(nothing)");
}

TEST_F(WatchdogTest, ARankThatWaitsTooLongIsAHang) {
  const double now = now_seconds();
  all_report(0, {Doing::communicating, 3, 1, now - 2, now - 2, 0});
  EXPECT_THAT(message(2s), HasSubstr("rank 2 is the one"));
}

TEST_F(WatchdogTest, ALostRankIsNamedUnlessAnotherToldTheCause) {
  all_report();
  report_error(1, "a peer is gone", kExitPeerLost);
  watchdog_->lose(2);
  EXPECT_THAT(message(), HasSubstr("rank 2 is gone"));
}

TEST_F(WatchdogTest, AnErrorGoesBeforeALostConnection) {
  all_report();
  watchdog_->lose(2);
  report_error(1, "bad key", kExitUserError);
  EXPECT_THAT(message(), HasSubstr("rank 1 failed first (exit code 2, at work): bad key"));
}

TEST_F(WatchdogTest, ALostPeerIsToldWhenNothingElseIsKnown) {
  all_report();
  report_error(0, "no connection to rank 2", kExitPeerLost);
  EXPECT_THAT(message(), HasSubstr("rank 0 failed first"));
}

TEST_F(WatchdogTest, MalformedReportsArePassedOver) {
  watchdog_->hear(1, "garbage");
  watchdog_->hear(7, "");
  EXPECT_EQ(message(300ms), "(nothing)");
}

}  // namespace
}  // namespace tessera::launch
