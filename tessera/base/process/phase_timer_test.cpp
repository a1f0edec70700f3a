#include "tessera/base/process/phase_timer.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace tessera {
namespace {

TEST(PhaseTimer, FollowEachOtherWithoutAGap) {
  PhaseTimer timer(10.0);
  timer.end("load", 10.5);
  timer.end("join", 12.0);
  ASSERT_EQ(timer.phases().size(), 2u);
  EXPECT_EQ(timer.phases()[1].name, "join");
  EXPECT_DOUBLE_EQ(timer.phases()[1].seconds, 1.5);
  EXPECT_DOUBLE_EQ(timer.total_seconds(), 2.0);
}

TEST(PhaseTimer, KnowWhenAProcessStarted) {
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
