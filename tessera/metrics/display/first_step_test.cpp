#include "tessera/metrics/display/first_step.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/clock.hpp"

namespace tessera::metrics {
namespace {

TEST(FirstStep, SaysWhatTheRankIsAtAndHowLongTheStepStillTakes) {
  const auto at = [](Doing doing, std::int32_t op = -1) {
    return progress_text({.doing = doing, .op = op, .step = 7}, 100, 6);
  };
  EXPECT_EQ(at(Doing::loading), "reading weights");
  EXPECT_EQ(at(Doing::writing), "starting");
  EXPECT_EQ(at(Doing::computing, 0), "step 7: op 1 of 100");
  EXPECT_EQ(at(Doing::communicating, 25), "step 7: op 26 of 100, about 18s left");
}

TEST(FirstStep, IsSilentWhenItIsOver) {
  ActivityLog log{};
  std::vector<std::string> told;
  FirstStep step(&log, 10, [&](const std::string& text) { told.push_back(text); });
  step.end();
  step.end();
  EXPECT_TRUE(told.empty());
  FirstStep nobody(nullptr);
}

}  // namespace
}  // namespace tessera::metrics
