#include "tessera/verify/verify_layouts.hpp"

#include <gmock/gmock.h>

#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

using testing::HasSubstr;

spec::Run tiny_run(std::int64_t dp) {
  spec::Run run = small_run(dp);
  run.layout.precision = spec::Precision::fp64;
  return run;
}

TEST(VerifyLayouts, CountsByTraitAndComputesEachReferenceOnce) {
  const std::vector<spec::Run> runs = {tiny_run(1), tiny_run(2), tiny_run(4)};
  std::int64_t calls = 0;
  const auto found =
      verify_layouts(runs[0], runs, [&](const auto& so_far) { EXPECT_EQ(so_far.all.layouts, ++calls); });
  EXPECT_TRUE(found.passed());
  EXPECT_EQ(found.all.layouts, 3);
  EXPECT_EQ(found.by_trait.at("dp_replicate").at("2").passed, 1);
  EXPECT_EQ(found.references, 1u);
  EXPECT_LT(found.all.worst_relative_error, 1e-10);
  EXPECT_THAT(to_text(found), HasSubstr("3 of 3 layouts equal one device within 1e-10"));
}

TEST(VerifyLayouts, ALayoutThatEndsWithAnErrorHasFailedAndTheOthersGoOn) {
  spec::Run broken = tiny_run(2);
  broken.layout.stages = "1,2";  // of four units
  const std::vector<spec::Run> runs = {broken, tiny_run(2)};
  const auto found = verify_layouts(tiny_run(1), runs, [](const auto&) {});
  EXPECT_FALSE(found.passed());
  EXPECT_EQ(found.all.passed, 1);
  ASSERT_EQ(found.failures.size(), 1u);
  EXPECT_THAT(found.failures[0].fault, HasSubstr("layout.stages"));
  EXPECT_THAT(found.failures[0].overrides, HasSubstr("layout.dp_replicate=2"));
}

TEST(VerifyLayouts, InFp32AllowsTenThousandths) {
  spec::Run run = small_run(2);
  run.training.optimizer = spec::Optimizer::sgd;
  const std::vector<spec::Run> runs = {run};
  const auto found = verify_layouts(run, runs, [](const auto&) {});
  EXPECT_TRUE(found.passed()) << to_text(found);
  EXPECT_EQ(found.tolerance, 1e-4);
  EXPECT_GT(found.all.worst_relative_error, 1e-10);
}

}  // namespace
}  // namespace tessera::train
