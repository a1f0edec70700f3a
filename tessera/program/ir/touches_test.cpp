#include "tessera/program/ir/touches.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::program {
namespace {

using Listed = std::vector<std::pair<How, Cell>>;

Listed listed(const Effects& effects) {
  Listed out;
  const std::pair<How, const std::vector<Cell>*> lists[] = {
      {How::reads, &effects.reads}, {How::returns, &effects.returns}, {How::makes, &effects.makes},
      {How::adds, &effects.adds},   {How::leaves, &effects.leaves},   {How::ends, &effects.ends}};
  for (const auto& [how, cells] : lists)
    for (const Cell& cell : *cells) out.emplace_back(how, cell);
  return out;
}

Sequence many_ops(const Tables& tables) {
  Sequence sequence = data_parallel(tables, {}, true).classes[0];
  const auto gradient = static_cast<std::uint16_t>(CellKind::gradient);
  for (const OpKind what :
       {OpKind::send, OpKind::receive, OpKind::exchange, OpKind::offload, OpKind::fetch, OpKind::free})
    for (const std::uint16_t flags : {std::uint16_t{0}, gradient})
      sequence.ops.push_back({.what = what, .item = 1, .micro = 1, .flags = flags});
  sequence.ops.push_back({.what = OpKind::forward, .item = 1, .micro = 0, .flags = kNoTape});
  sequence.ops.push_back({.what = OpKind::reduce, .item = 1});
  return sequence;
}

TEST(Touches, AreTheEffectsOfEachOp) {
  for (const bool resident : {true, false}) {
    const Tables tables = example_tables({.num_micro = 3, .resident = resident});
    const Sequence sequence = many_ops(tables);
    const Touches touches(sequence, tables);
    for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
      Listed found;
      for (const Touch& touch : touches.of(at))
        found.emplace_back(touch.how, cell_of(touch, sequence.ops[at]));
      EXPECT_EQ(found, listed(effects(sequence.ops[at], tables))) << "op " << at;
    }
  }
}

TEST(Touches, EveryCellHasANumberOfItsOwn) {
  const Tables tables = example_tables({.num_micro = 3});
  const Sequence sequence = many_ops(tables);
  const Touches touches(sequence, tables);
  std::map<Cell, std::uint32_t> numbers;
  std::map<std::uint32_t, Cell> cells;
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at)
    for (const Touch& touch : touches.of(at)) {
      const Cell cell = cell_of(touch, sequence.ops[at]);
      const std::uint32_t number = touches.number(touch, sequence.ops[at]);
      EXPECT_LT(number, touches.num_cells());
      EXPECT_EQ(numbers.try_emplace(cell, number).first->second, number);
      EXPECT_EQ(cells.try_emplace(number, cell).first->second, cell);
      EXPECT_EQ(touches.cell(number), cell);
    }
}

TEST(Touches, CellsThatASequenceNeverTouchesTakeNoRoom) {
  const Tables tables = example_tables({.num_blocks = 100, .num_micro = 1000});
  Sequence sequence;
  sequence.ops = {{.what = OpKind::forward, .item = 7, .micro = 3}};
  // A value in, a value out, a tape, each per micro-batch; two buckets.
  EXPECT_EQ(Touches(sequence, tables).num_cells(), 3 * 1000 + 2);
}

}  // namespace
}  // namespace tessera::program
