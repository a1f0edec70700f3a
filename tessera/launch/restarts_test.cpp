#include "tessera/launch/restarts.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

TEST(Restart, IsForWhatSomethingOutsideHasEnded) {
  const auto killed_by = [](int signal) { return Ending{128 + signal, signal}; };
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV, SIGBUS})
    EXPECT_TRUE(may_start_again(killed_by(signal)));
  for (const int signal : {SIGXFSZ, SIGXCPU}) EXPECT_FALSE(may_start_again(killed_by(signal)));
  EXPECT_TRUE(may_start_again({kExitPeerLost, 0}));
  for (const int code : {kExitNo, kExitUserError, kExitBug, 127}) EXPECT_FALSE(may_start_again({code, 0}));
}

TEST(Restart, WaitsLongerEachTimeUpToAMinute) {
  const double expected[] = {0, 2, 4, 8, 16, 32, 60, 60};
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(seconds_before_restart(i), expected[i]);
  EXPECT_EQ(seconds_before_restart(1'000'000), 60);
}

}  // namespace
}  // namespace tessera::launch
