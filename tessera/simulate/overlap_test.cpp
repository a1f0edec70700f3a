// Is the time of steps that overlap what it must be, where it can be told by hand?
#include <gtest/gtest.h>

#include "tessera/program/check/check.hpp"
#include "tessera/program/passes/updates.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::simulate {
namespace {

using program::Op;
using program::OpKind;

constexpr int kSegments = 16;

// Of segments whose forward takes 1 and whose backward takes 2, and reductions of one bucket for each; that
// of the norms, which nearly all of them read, takes no time.
double step_seconds(bool overlaps, bool clips, bool by_priority, double reduction) {
  program::Tables tables = program::example_tables({.num_blocks = kSegments - 2, .num_micro = 1});
  if (overlaps) program::overlap_steps(tables, clips);
  const auto seconds = [=](const Op& op, const program::Tables&) {
    if (op.what == OpKind::forward) return 1.0;
    if (op.what == OpKind::backward) return 2.0;
    return op.what == OpKind::reduce && op.item < kSegments ? reduction : 0.0;
  };
  program::GenerateOptions options;
  if (by_priority) options.priority = program::Priority{seconds};
  const auto compiled = program::data_parallel(tables, options);
  EXPECT_TRUE(program::check(compiled).empty());
  const OpCosts costs = costs_by(compiled, [&](std::uint32_t, const Op& op) -> program::Cost {
    return {.phases = {{op.along >= 0 && op.what == OpKind::reduce ? op.along : std::int16_t{-1},
                        seconds(op, compiled.tables)}}};
  });
  return report(compiled, simulate(compiled, costs)).step_seconds;
}

TEST(OverlapSimulated, ByPriorityAStepTakesLittleMoreThanTheLongerOfComputationAndCommunication) {
  constexpr double kForward = kSegments, kCompute = 3 * kForward;
  // One after the other: reductions begin with the first backward, and all end before the next step.
  EXPECT_DOUBLE_EQ(step_seconds(false, false, false, 3), kForward + 2 + 3 * kSegments);
  // In the order of arrival the first forward waits for the last reduction.
  EXPECT_DOUBLE_EQ(step_seconds(true, false, false, 3), kForward + 2 + 3 * kSegments);
  // With clipping the updates wait for all reductions, in whichever order.
  EXPECT_DOUBLE_EQ(step_seconds(true, true, true, 3), kForward + 2 + 3 * kSegments);
  EXPECT_LT(step_seconds(true, false, true, 3), 1.15 * kCompute);
  // Quick reductions: all but that of the embedding, which is made last and needed first, are hidden.
  EXPECT_DOUBLE_EQ(step_seconds(true, false, true, 0.5), kCompute + 0.5);
  EXPECT_DOUBLE_EQ(step_seconds(true, false, false, 0.5), kCompute + 0.5);
}

}  // namespace
}  // namespace tessera::simulate
