#include "tessera/metrics/display/progress_bar.hpp"

#include <gtest/gtest.h>

namespace tessera::metrics {
namespace {

TEST(ProgressBar, SaysHowFarHowFastAndHowLongStill) {
  const BytesDone bytes{.what = "verifying", .done = 1ull << 30, .all = 4ull << 30, .seconds = 2};
  const StyledLine line = progress_line(bytes, {.width = 89, .unicode = false});
  EXPECT_EQ(line.rendered(200, false),
            "verifying ====------------  25 %      1.0 GiB of 4.0 GiB     512 MiB/s    6.0s left");
  EXPECT_LE(line.width(), 89);
}

TEST(ProgressBar, KnowsNoRateBeforeTheFirstByte) {
  const StyledLine line = progress_line({.what = "verifying", .all = 100}, {.width = 89, .unicode = false});
  EXPECT_EQ(line.rendered(200, false).find("/s"), std::string::npos);
}

}  // namespace
}  // namespace tessera::metrics
