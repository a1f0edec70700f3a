// What most tests of layouts ask.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tessera/verify/verify.hpp"

namespace tessera::train {

// `what` tells which run it was.
inline void expect_equal_to_one_device(const spec::Run& run, const std::string& what) {
  const auto found = verify_on_threads(run);
  EXPECT_TRUE(found.passed()) << what << "\n" << to_text(found);
}

}  // namespace tessera::train
