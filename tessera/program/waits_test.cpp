#include "tessera/program/waits.hpp"

#include <gtest/gtest.h>

#include "tessera/base/text.hpp"
#include "tessera/program/examples.hpp"
#include "tessera/program/generate.hpp"
#include "tessera/program/text.hpp"

namespace tessera::program {
namespace {

// Waits of each op as text: "3,^7".
std::vector<std::string> waits_by_op(const Sequence& sequence) {
  std::vector<std::string> out;
  for (const Op& op : sequence.ops) {
    std::string text;
    for (const std::uint32_t wait : sequence.waits_of(op))
      text += cat(text.empty() ? "" : ",", wait & kPreviousStep ? "^" : "", wait & ~kPreviousStep);
    out.push_back(text);
  }
  return out;
}

TEST(Waits, AreOnlyWhatLaneOrderDoesNotGive) {
  const Program program = data_parallel(example_tables({.num_blocks = 0, .num_micro = 1, .tied = true}), {});
  ASSERT_EQ(words(program.classes[0], program.tables),
            "+tokens 0F0 1F0 1B0 r1! 0B0 r0! +loss +norm +finite s0 s1");
  EXPECT_EQ(waits_by_op(program.classes[0]),
            (std::vector<std::string>{"", "", "", "0", "3", "", "5", "", "", "", "9", ""}));
}

TEST(Waits, AGatherOnAnotherLaneWaitsForTheStepOfTheStepBefore) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true, .resident = false});
  Program program = data_parallel(tables, {});
  Sequence& sequence = program.classes[0];
  for (Op& op : sequence.ops)
    if (op.what == What::gather) op.lane = kCopy;
  build_waits(sequence, tables);
  ASSERT_EQ(words(sequence, tables),
            "+tokens g0 g1 0F0 1F0 1B0 r1! dU1 0B0 r0! dU0 +loss +norm +finite s0 s1");
  const auto waits = waits_by_op(sequence);
  EXPECT_EQ(waits[1], "^14");  // g0 waits for s0
  EXPECT_EQ(waits[2], "^15");  // g1 waits for s1
  EXPECT_EQ(waits[3], "1");    // 0F0 waits for g0 only
  EXPECT_EQ(waits[4], "2");    // 1F0 reads both
}

TEST(Waits, AStepOnAnotherLaneHoldsBackTheNextForward) {
  const Tables tables = example_tables({.num_blocks = 0, .num_micro = 1, .tied = true});
  Program program = data_parallel(tables, {});
  Sequence& sequence = program.classes[0];
  for (Op& op : sequence.ops)
    if (op.what == What::step) op.lane = kCopy;
  build_waits(sequence, tables);
  ASSERT_EQ(words(sequence, tables), "+tokens 0F0 1F0 1B0 r1! 0B0 r0! +loss +norm +finite s0 s1");
  const auto waits = waits_by_op(sequence);
  EXPECT_EQ(waits[1], "^10");  // 0F0 waits for s0
  EXPECT_EQ(waits[2], "^11");  // 1F0 waits for s1
  EXPECT_EQ(waits[8], "");     // +norm overwrites what s1 read, but comes after 1F0 anyway
}

}  // namespace
}  // namespace tessera::program
