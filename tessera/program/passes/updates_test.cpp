// Where optimizer steps and reductions stand when steps overlap.
#include "tessera/program/passes/updates.hpp"

#include <gmock/gmock.h>

#include "tessera/program/check/check.hpp"
#include "tessera/program/passes/priority.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/program/testing/short_forms.hpp"

namespace tessera::program {
namespace {

using testing::IsEmpty;

Tables overlapping(bool updates_wait, const Example& example = {.num_micro = 1}) {
  Tables tables = example_tables(example);
  overlap_steps(tables, updates_wait);
  return tables;
}

// A computation takes 1, a reduction as long as given.
SecondsOf taking(double reduction) {
  return [=](const Op& op) { return is_compute(op.what) ? 1 : op.what == OpKind::reduce ? reduction : 0.0; };
}

std::string checked_order(const Program& program) {
  EXPECT_THAT(check(program), IsEmpty()) << to_text(check(program));
  return order(program);
}

TEST(Updates, ComeLastAndOnTheComputeLaneWhereStepsDoNotOverlap) {
  const Program program = data_parallel(example_tables({.num_micro = 1}), {});
  EXPECT_EQ(checked_order(program),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! 2B0 r2! 1B0 r1! r4! 0B0 r0! +loss +norm +finite s0 s1 s2 s3 s4");
  EXPECT_EQ(program.classes[0].ops.back().lane, kCompute);
}

TEST(Updates, FollowTheirReductionsWhereNothingIsClipped) {
  const Program program = data_parallel(overlapping(false), {});
  EXPECT_EQ(checked_order(program),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! s3 2B0 r2! s2 1B0 r1! s1 r4! s4 0B0 r0! s0 +loss +norm +finite");
  for (const Op& op : program.classes[0].ops) {
    EXPECT_EQ(op.lane == kUpdate, op.what == OpKind::step);
  }
}

TEST(Updates, WaitForTheNormWhereItClipsAndComeInTheOrderOfTheNextStepsNeed) {
  EXPECT_EQ(checked_order(data_parallel(overlapping(true), {})),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! 2B0 r2! 1B0 r1! r4! 0B0 r0! +loss +norm +finite s0 s1 s4 s2 s3");
}

TEST(Priority, ReducesAsGradientsComeWhereReductionsAreQuick) {
  EXPECT_EQ(checked_order(data_parallel(overlapping(false), {.priority = taking(0.1)})),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! s3 2B0 r2! s2 1B0 r1! s1 0B0 r4! s4 r0! s0 +loss +norm +finite");
}

// Whichever is under way when the backward is through, the others follow as the next step needs them.
TEST(Priority, ReducesFirstWhatTheNextStepNeedsFirst) {
  EXPECT_EQ(checked_order(data_parallel(overlapping(false), {.priority = taking(10)})),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! s3 2B0 1B0 0B0 r0! s0 r1! s1 r4! s4 r2! s2 +loss +norm +finite");
  EXPECT_EQ(checked_order(data_parallel(overlapping(false), {.priority = taking(1.5)})),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! s3 2B0 1B0 r2! s2 0B0 r0! s0 r1! s1 r4! s4 +loss +norm +finite");
}

TEST(Priority, KeepsTheSumOverReplicasBehindThatOverShards) {
  const Example example{.num_micro = 2, .sharded = true, .replicas = 2};
  for (const bool waits : {false, true})
    for (const double seconds : {0.1, 1.5, 10.0})
      for (const std::int32_t every : {0, 1}) {
        const Program program = data_parallel(
            overlapping(waits, example), {.residency = {.reduce_every = every}, .priority = taking(seconds)});
        checked_order(program);
      }
}

}  // namespace
}  // namespace tessera::program
