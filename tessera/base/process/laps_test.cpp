#include "tessera/base/process/laps.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace tessera {
namespace {

TEST(Laps, FollowEachOtherWithoutAGap) {
  Laps laps(10.0);
  laps.end("load", 10.5);
  laps.end("join", 12.0);
  ASSERT_EQ(laps.laps().size(), 2u);
  EXPECT_EQ(laps.laps()[1].name, "join");
  EXPECT_DOUBLE_EQ(laps.laps()[1].seconds, 1.5);
  EXPECT_DOUBLE_EQ(laps.total_seconds(), 2.0);
}

TEST(Laps, KnowWhenAProcessStarted) {
  const double before = now_seconds();
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const double after = now_seconds(), start = process_start_seconds(child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  constexpr double kTick = 0.01;
  EXPECT_GE(start, before - 2 * kTick);
  EXPECT_LE(start, after + 2 * kTick);
  EXPECT_LT(process_start_seconds(getpid()), before);
}

}  // namespace
}  // namespace tessera
