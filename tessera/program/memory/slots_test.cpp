#include "tessera/program/memory/slots.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::program {
namespace {

constexpr std::int64_t kSlotBytes = 512;  // of Full and WeightGrad of the examples, rounded up

Program zero3(std::uint32_t num_blocks, std::int32_t num_micro) {
  GenerateOptions options;
  options.residency.keeps_full = false;
  return data_parallel(
      example_tables({.num_blocks = num_blocks, .num_micro = num_micro, .resident = false, .sharded = true}),
      options);
}

// Whether `later` comes after `earlier` by waits and the order of lanes, both in one step.
bool is_ordered(const Sequence& sequence, std::uint32_t earlier, std::uint32_t later) {
  std::set<std::uint32_t> before = {later};
  for (std::uint32_t at = later + 1; at-- > earlier;) {
    if (!before.contains(at)) continue;
    for (const std::uint32_t wait : sequence.waits_of(sequence.ops[at]))
      if (!(wait & kPreviousStep)) before.insert(wait);
    for (std::uint32_t i = at; i-- > 0;)
      if (sequence.ops[i].lane == sequence.ops[at].lane) {
        before.insert(i);
        break;
      }
  }
  return before.contains(earlier);
}

std::uint32_t end_of(const Sequence& sequence, const Tables& tables, const Slot& slot) {
  for (std::uint32_t at = slot.op; at < sequence.ops.size(); ++at) {
    const auto ends = effects(sequence.ops[at], tables).ends;
    if (std::ranges::count(ends, slot.cell) > 0) return at;
  }
  ADD_FAILURE() << to_text(slot.cell, tables) << " does not end";
  return slot.op;
}

TEST(Slots, OfZero3AreFewHoweverManyBlocksThereAre) {
  for (const std::uint32_t num_blocks : {4, 12}) {
    Program program = zero3(num_blocks, 1);
    const auto slots = place_in_slots(program);
    ASSERT_EQ(slots.size(), 1u);
    // Each block's Full is made for the forward and again for the backward.
    EXPECT_GE(slots[0].placed.size(), 3 * num_blocks);
    EXPECT_LE(slots[0].bytes, 8 * kSlotBytes) << num_blocks;
  }
}

TEST(Slots, AreUsedAgainOnlyAfterWhatLayThereHasEnded) {
  Program program = zero3(5, 3);
  const auto slots = place_in_slots(program);
  const Sequence& sequence = program.classes[0];
  int num_reused = 0;
  for (std::size_t i = 0; i < slots[0].placed.size(); ++i)
    for (std::size_t j = i + 1; j < slots[0].placed.size(); ++j) {
      const Slot &first = slots[0].placed[i], &second = slots[0].placed[j];
      if (first.offset != second.offset) continue;
      const std::uint32_t end = end_of(sequence, program.tables, first);
      EXPECT_LT(end, second.op);
      EXPECT_TRUE(is_ordered(sequence, end, second.op)) << to_text(second.cell, program.tables);
      ++num_reused;
    }
  EXPECT_GT(num_reused, 20);
}

TEST(Slots, TheFirstOfAStepComesAfterTheLastOfTheStepBefore) {
  Program program = zero3(2, 1);
  const auto slots = place_in_slots(program);
  const Slot& first = slots[0].placed.front();
  const Sequence& sequence = program.classes[0];
  bool waits = false;
  for (const std::uint32_t wait : sequence.waits_of(sequence.ops[first.op]))
    waits |= (wait & kPreviousStep) != 0;
  EXPECT_TRUE(waits) << words(sequence, program.tables);
}

TEST(Slots, WhatIsReceivedKeepsItsPlaceUntilTheWeightHalfIsThrough) {
  const Order order = zero_bubble_h1({.num_ranks = 2, .num_micro = 6});
  Program program = example_pipeline({.num_blocks = 2, .num_micro = 6, .dp = 1}, order, {2, 2});
  const auto slots = place_in_slots(program);
  int num_reused = 0;
  for (std::size_t c = 0; c < slots.size(); ++c)
    for (const Slot& slot : slots[c].placed) {
      ASSERT_TRUE(slot.cell.kind == CellKind::value || slot.cell.kind == CellKind::gradient);
      const auto& sequence = program.classes[c];
      const auto uses = [&](const Op& op) {
        if (op.what != OpKind::backward_weight || op.micro != slot.cell.micro) return false;
        const Segment& segment = program.tables.segments[op.item];
        const auto& cells = slot.cell.kind == CellKind::value ? segment.reads : segment.writes;
        return std::ranges::count(cells, slot.cell.item) > 0;
      };
      const auto last = std::ranges::find_if(sequence.ops, uses) - sequence.ops.begin();
      ASSERT_LT(last, std::ssize(sequence.ops));
      for (const Slot& other : slots[c].placed) {
        if (other.offset != slot.offset || other.op <= slot.op) continue;
        EXPECT_GT(other.op, last) << to_text(other.cell, program.tables);
        ++num_reused;
      }
    }
  EXPECT_GT(num_reused, 4);
}

TEST(Slots, NothingIsPlacedThatStaysOrIsHandedOn) {
  Program program = data_parallel(example_tables({.num_blocks = 2, .num_micro = 2}), {});
  const Program before = program;
  EXPECT_EQ(place_in_slots(program), std::vector<Slots>(1));
  EXPECT_EQ(program, before) << "and no wait is added";
}

}  // namespace
}  // namespace tessera::program
