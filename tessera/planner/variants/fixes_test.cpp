#include "tessera/planner/variants/fixes.hpp"

#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/plan/testing/of_run.hpp"

namespace tessera::planner {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Fixes, ALayoutAboveTheLimitIsRefusedWithWhatFits) {
  spec::Run run = plan::ten_million_in_six_layers();
  const std::int64_t peak = plan::peak_bytes(plan::compile(run));
  run.layout.memory_limit_mib = (peak >> 20) + 1;
  EXPECT_NO_THROW(hold_to_memory_limit(run, plan::compile(run)));
  run.layout.memory_limit_mib = (peak >> 20) - 20;
  try {
    hold_to_memory_limit(run, plan::compile(run));
    FAIL() << "above the limit, and not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("layout.memory_limit_mib"), HasSubstr("rank 0 would hold "),
                                    HasSubstr("layout.micro_batch=")));
  }
}

TEST(Fixes, FixesFitAndComeByTheirTime) {
  const spec::Run run = plan::ten_million_in_six_layers();
  const std::int64_t limit = plan::peak_bytes(plan::compile(run)) * 8 / 10;
  const auto found = fixes(run, plan::compile(run), limit);
  ASSERT_FALSE(found.empty());
  double last = 0;
  for (const Fix& fix : found) {
    EXPECT_LE(fix.peak_bytes, limit) << fix.changes.front();
    EXPECT_GE(fix.slowdown, last);
    last = fix.slowdown;
  }
}

TEST(Fixes, WhatNothingMakesFitIsSaidSo) {
  spec::Run run = plan::ten_million_in_six_layers();
  run.layout.memory_limit_mib = 1;
  EXPECT_THAT([&] { hold_to_memory_limit(run, plan::compile(run)); },
              testing::ThrowsMessage<UserError>(HasSubstr("Nothing that was tried fits")));
}

}  // namespace
}  // namespace tessera::planner
