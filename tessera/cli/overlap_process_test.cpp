// Do reductions run beside the backward? How much they hide, and what that is worth, is measured by
// overlap_slow_test.cpp.
#include "tessera/cli/testing/overlap.hpp"

namespace tessera::cli {
namespace {

// On a busy machine little of a reduction may happen to lie under compute, but never nothing.
TEST(Overlap, PutsReductionsBesideTheBackward) {
  EXPECT_GT(traced_run(true).hidden_share, 0.05);
  EXPECT_EQ(traced_run(false).hidden_share, 0.0) << "without overlap nothing is reduced on a lane of its own";
}

}  // namespace
}  // namespace tessera::cli
