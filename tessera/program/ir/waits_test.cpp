#include "tessera/program/ir/waits.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/program/testing/mutate.hpp"

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
    if (op.what == OpKind::gather) op.lane = kCopy;
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
    if (op.what == OpKind::step) op.lane = kCopy;
  build_waits(sequence, tables);
  ASSERT_EQ(words(sequence, tables), "+tokens 0F0 1F0 1B0 r1! 0B0 r0! +loss +norm +finite s0 s1");
  const auto waits = waits_by_op(sequence);
  EXPECT_EQ(waits[1], "^10");  // 0F0 waits for s0
  EXPECT_EQ(waits[2], "^11");  // 1F0 waits for s1
  EXPECT_EQ(waits[8], "");     // +norm overwrites what s1 read, but comes after 1F0 anyway
}

// Reachability over two laps of the loop body by lane order and waits, found the slow and obvious way.
std::vector<std::vector<bool>> reachable(const Sequence& sequence) {
  const std::size_t n = sequence.ops.size();
  std::vector<std::vector<bool>> before(2 * n,
                                        std::vector<bool>(2 * n, false));  // [op][ops done when it starts]
  const auto follow = [&](std::size_t op, std::size_t other) {
    before[op][other] = true;
    for (std::size_t i = 0; i < 2 * n; ++i)
      if (before[other][i]) before[op][i] = true;
  };
  for (std::size_t op = 0; op < 2 * n; ++op) {
    for (std::size_t other = 0; other < op; ++other)
      if (sequence.ops[other % n].lane == sequence.ops[op % n].lane) follow(op, other);
    for (const std::uint32_t wait : sequence.waits_of(sequence.ops[op % n])) {
      const std::size_t target = wait & ~kPreviousStep;
      if (!(wait & kPreviousStep)) follow(op, op / n * n + target);
      if ((wait & kPreviousStep) && op >= n) follow(op, target);
    }
  }
  return before;
}

bool meet(const std::vector<Cell>& a, const std::vector<Cell>& b) {
  return std::ranges::any_of(a, [&](const Cell& cell) { return std::ranges::count(b, cell) > 0; });
}

// Whether every two ops that touch one cell, one of them writing, are ordered.
bool is_ordered(const Sequence& sequence, const Tables& tables) {
  const auto before = reachable(sequence);
  const std::size_t n = sequence.ops.size();
  std::vector<Effects> found;
  for (const Op& op : sequence.ops) found.push_back(effects(op, tables));
  for (std::size_t b = 0; b < 2 * n; ++b)
    for (std::size_t a = 0; a < b; ++a) {
      const Effects &x = found[a % n], &y = found[b % n];
      const bool clash =
          meet(x.writes(), y.reads) || meet(x.reads, y.writes()) || meet(x.writes(), y.writes());
      if (clash && !before[b][a]) return false;
    }
  return true;
}

TEST(Waits, OrderAllClashesAndNoneCanBeSpared) {
  std::size_t num_waits = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Tables tables =
        example_tables({.num_blocks = 0, .num_micro = 2, .tied = seed % 2 == 0, .resident = false});
    Program program = legal_reordering(data_parallel(tables, {}, seed % 3 == 0), seed);
    Sequence& sequence = program.classes[0];
    for (Op& op : sequence.ops)
      if (op.what == OpKind::gather || op.what == OpKind::free || op.what == OpKind::step) op.lane = kCopy;
    // Nothing in the step needs the loss: summed last, only the next step's forward must wait for it.
    const auto loss = std::ranges::find_if(
        sequence.ops, [](const Op& op) { return op.what == OpKind::sum && op.item == 1; });
    if (seed % 4 == 1) std::rotate(loss, loss + 1, sequence.ops.end());
    build_waits(sequence, tables);
    ASSERT_TRUE(is_ordered(sequence, tables)) << "seed " << seed << "\n" << to_text(program);
    num_waits += sequence.waits.size();
    for (Op& op : sequence.ops) {
      for (std::uint32_t i = 0; i < op.num_waits; ++i) {
        std::swap(sequence.waits[op.first_wait + i], sequence.waits[op.first_wait + op.num_waits - 1u]);
        --op.num_waits;
        EXPECT_FALSE(is_ordered(sequence, tables)) << "seed " << seed << ", a wait of " << word(op, tables);
        ++op.num_waits;
        std::swap(sequence.waits[op.first_wait + i], sequence.waits[op.first_wait + op.num_waits - 1u]);
      }
    }
  }
  EXPECT_GT(num_waits, 100u);
}

}  // namespace
}  // namespace tessera::program
