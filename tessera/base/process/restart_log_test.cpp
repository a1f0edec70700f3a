#include "tessera/base/process/restart_log.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(RestartLog, CountsTheTimeFromHoldingAStateToHoldingItAgain) {
  RestartLog log;
  log.hold(0, 10);
  log.hold(20, 50);
  EXPECT_EQ(log.lost_seconds(55), 0);
  log.restart(20, true);
  EXPECT_EQ(log.lost_seconds(60), 10) << "it is still being lost";
  log.hold(20, 62);
  EXPECT_EQ(log.lost_seconds(70), 12);
  log.hold(40, 80);
  log.restart(40, true);
  log.hold(40, 85);
  EXPECT_EQ(log.lost_seconds(90), 12 + 5);
  EXPECT_EQ(log.count(), 2);
}

TEST(RestartLog, ASaveThatDidNotEndLosesTheTimeSinceTheOneBefore) {
  RestartLog log;
  log.hold(0, 10);
  log.hold(20, 50);
  log.hold(40, 90);
  log.restart(20, true);
  log.hold(20, 100);
  EXPECT_EQ(log.lost_seconds(100), 50);
}

TEST(RestartLog, AStartThatEndsBeforeItHoldsAStateAddsToTheSameLoss) {
  RestartLog log;
  log.hold(0, 10);
  log.restart(0, false);
  log.restart(0, false);
  log.hold(0, 30);
  EXPECT_EQ(log.lost_seconds(30), 20);
  EXPECT_EQ(log.count(), 2);
  EXPECT_FALSE(log.is_own());
}

}  // namespace
}  // namespace tessera
