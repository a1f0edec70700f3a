// Where optimizer steps and reductions stand when steps overlap.
#include "tessera/program/passes/updates.hpp"

#include <gmock/gmock.h>

#include "tessera/program/check/check.hpp"
#include "tessera/program/passes/priority.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/program/testing/short_forms.hpp"

namespace tessera::program {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Tables overlapping(bool updates_wait, const Example& example = {.num_micro = 1}) {
  Tables tables = example_tables(example);
  overlap_steps(tables, updates_wait);
  return tables;
}

// A computation takes 1, a reduction as long as given.
SecondsOf taking(double reduction) {
  return [=](const Op& op, const Tables&) {
    return is_compute(op.what) ? 1 : op.what == OpKind::reduce ? reduction : 0.0;
  };
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
  EXPECT_EQ(checked_order(data_parallel(overlapping(false), {.priority = Priority{taking(0.1)}})),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! s3 2B0 r2! s2 1B0 r1! s1 0B0 r4! s4 r0! s0 +loss +norm +finite");
}

// Whichever is under way when the backward is through, the others follow as the next step needs them.
TEST(Priority, ReducesFirstWhatTheNextStepNeedsFirst) {
  EXPECT_EQ(checked_order(data_parallel(overlapping(false), {.priority = Priority{taking(10)}})),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! s3 2B0 1B0 0B0 r0! s0 r1! s1 r4! s4 r2! s2 +loss +norm +finite");
  EXPECT_EQ(checked_order(data_parallel(overlapping(false), {.priority = Priority{taking(1.5)}})),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! s3 2B0 1B0 r2! s2 0B0 r0! s0 r1! s1 r4! s4 +loss +norm +finite");
}

// Two may be on their way, on channels of their own; the third waits for the first of them.
TEST(Priority, OfACreditLetsTheNextBeginBeforeTheLastHasEnded) {
  const Tables tables = overlapping(false);
  const std::int64_t bytes = tables.buckets[0].elements * bytes_of(tables.buckets[0].gradient);
  const Program program =
      data_parallel(tables, {.priority = Priority{.seconds = taking(10), .credit_bytes = 2 * bytes}});
  EXPECT_EQ(checked_order(program),
            "+tokens 0F0 1F0 2F0 3F0 3B0 r3! s3 2B0 r2! s2 1B0 0B0 r0! s0 r1! s1 r4! s4 +loss +norm +finite");
  std::vector<std::string> channels, waits;
  const Sequence& sequence = program.classes[0];
  for (const Op& op : sequence.ops)
    if (op.what == OpKind::reduce) {
      channels.push_back(program.tables.axis_sets[static_cast<std::size_t>(op.along)].name);
      for (const std::uint32_t wait : sequence.waits_of(op))
        if (sequence.ops[wait & ~kPreviousStep].what == OpKind::reduce && !(wait & kPreviousStep))
          waits.push_back(cat(op.item, " for ", sequence.ops[wait].item));
    }
  EXPECT_THAT(channels, ElementsAre("dp", "dp.1", "dp", "dp.1", "dp"));
  // What came before on its own channel has ended, too.
  EXPECT_THAT(waits, ElementsAre("1 for 3", "4 for 2"));
}

TEST(Priority, OfACreditBelowTwoReductionsIsOneAtATime) {
  const Tables tables = overlapping(false);
  const Program without = data_parallel(tables, {.priority = Priority{taking(1.5)}});
  EXPECT_EQ(data_parallel(tables, {.priority = Priority{taking(1.5), 300}}), without);
}

TEST(Priority, KeepsTheSumOverReplicasBehindThatOverShards) {
  const Example example{.num_micro = 2, .sharded = true, .replicas = 2};
  for (const bool waits : {false, true})
    for (const double seconds : {0.1, 1.5, 10.0})
      for (const std::int32_t every : {0, 1}) {
        const Program program =
            data_parallel(overlapping(waits, example),
                          {.residency = {.reduce_every = every}, .priority = Priority{taking(seconds)}});
        checked_order(program);
      }
}

}  // namespace
}  // namespace tessera::program
