#include "tessera/optim/skipped_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::optim {
namespace {

using testing::HasSubstr;

FinishedStep skipped(std::int64_t step, double loss_scale = 1) {
  return {.step = step, .taken = false, .loss_scale = loss_scale};
}

TEST(SkippedSteps, StopARunAfterThatManyInARow) {
  SkippedSteps steps(3, true);
  for (const std::int64_t step : {1, 2}) steps.add(skipped(step));
  steps.add({.step = 3});
  for (const std::int64_t step : {4, 5}) steps.add(skipped(step));
  EXPECT_FALSE(steps.are_too_many()) << "step 3 was taken";
  steps.add(skipped(6));
  EXPECT_TRUE(steps.are_too_many());
  EXPECT_THAT(steps.error("Nothing was saved.").what(),
              HasSubstr("steps 4 to 6 were not taken, as their gradients were not finite"));
  SkippedSteps never(0, true);
  for (std::int64_t step = 1; step <= 100; ++step) never.add(skipped(step));
  EXPECT_FALSE(never.are_too_many());
}

TEST(SkippedSteps, DoNotCountWhileFp16SearchesForItsLossScale) {
  SkippedSteps steps(3, true);
  std::int64_t step = 0;
  for (double scale = 0x1p32; scale > 1; scale /= 2) {
    steps.add(skipped(++step, scale));
    EXPECT_FALSE(steps.are_too_many()) << "loss scale " << scale;
  }
  for (int i = 0; i < 3; ++i) steps.add(skipped(++step));
  EXPECT_TRUE(steps.are_too_many()) << "no smaller scale exists";
  EXPECT_THAT(steps.error("").what(), HasSubstr("steps 1 to 35 were not taken"));
}

}  // namespace
}  // namespace tessera::optim
