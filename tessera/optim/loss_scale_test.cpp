#include "tessera/optim/loss_scale.hpp"

#include <gtest/gtest.h>

namespace tessera::optim {
namespace {

spec::Run fp16_run() {
  spec::Run run;
  run.layout.precision = spec::Precision::fp16;
  run.training.loss_scale_start = 8;
  run.training.loss_scale_growth_steps = 3;
  return run;
}

TEST(LossScale, HalvesAtAnOverflowAndDoublesAfterStepsInARow) {
  LossScale scale(fp16_run().training, spec::Precision::fp16);
  EXPECT_EQ(scale.value(), 8);
  const std::pair<bool, double> table[] = {{true, 8},  {true, 8}, {true, 16}, {true, 16}, {true, 16},
                                           {false, 8}, {true, 8}, {true, 8},  {true, 16}};
  for (const auto& [taken, after] : table) {
    scale.update(taken);
    EXPECT_EQ(scale.value(), after);
  }
}

TEST(LossScale, EndsAtOne) {
  LossScale scale(fp16_run().training, spec::Precision::fp16);
  for (int i = 0; i < 10; ++i) scale.update(false);
  EXPECT_EQ(scale.value(), 1);
}

TEST(LossScale, OfOtherPrecisionsIsOneAndStays) {
  for (const auto precision : {spec::Precision::fp32, spec::Precision::fp64, spec::Precision::bf16}) {
    auto run = fp16_run();
    run.layout.precision = precision;
    LossScale scale(run.training, run.layout.precision);
    for (int i = 0; i < 10; ++i) scale.update(i % 2 == 0);
    EXPECT_EQ(scale.value(), 1);
  }
}

}  // namespace
}  // namespace tessera::optim
