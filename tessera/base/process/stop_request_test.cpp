#include "tessera/base/process/stop_request.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Means = StopRequest::Means;

TEST(StopRequest, TheFirstSignalAsksAndALaterOneEndsAtOnce) {
  StopRequest request;
  EXPECT_EQ(request.exit_code(), 0);
  EXPECT_EQ(request.ask(15, 100), Means::stop);
  EXPECT_EQ(request.exit_code(), 143);
  EXPECT_EQ(request.since_seconds(), 100);
  EXPECT_FALSE(request.ends_at_once());
  EXPECT_EQ(request.ask(2, 100 + 2 * StopRequest::kOneRequestSeconds), Means::end_at_once);
  EXPECT_TRUE(request.ends_at_once());
  EXPECT_EQ(request.exit_code(), 143) << "the first one is told";
}

// torchrun and mpirun hand a signal on to ranks that had it too when it came to the whole process group;
// `timeout` sends it twice.
TEST(StopRequest, ASignalThatIsHandedOnIsTheSameRequest) {
  StopRequest request;
  EXPECT_EQ(request.ask(15, 100), Means::stop);
  EXPECT_EQ(request.ask(15, 100.5), Means::nothing_new);
  EXPECT_FALSE(request.ends_at_once());
}

TEST(StopRequest, WhatAnotherRankWasAskedIsNoSecondRequest) {
  StopRequest request;
  request.ask(15, 100);
  request.take_over(15, 200);
  EXPECT_FALSE(request.ends_at_once());
  StopRequest of_another;
  of_another.take_over(10, 200);
  EXPECT_EQ(of_another.exit_code(), 138);
  EXPECT_EQ(of_another.since_seconds(), 200);
}

}  // namespace
}  // namespace tessera
