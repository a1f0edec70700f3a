#include "tessera/program/ir/touches.hpp"

#include <algorithm>

namespace tessera::program {
namespace {
constexpr std::uint32_t kNone = 0xffff'ffffu;
}

Touches::Touches(const Sequence& sequence, const Tables& tables) {
  std::uint32_t num_items = 0;
  for (const Op& op : sequence.ops) num_items = std::max(num_items, op.item + 1);
  std::vector<std::uint32_t> first_kind(std::size_t{num_items} * kNumOpKinds, kNone);
  kind_of_op_.reserve(sequence.ops.size());
  Effects found;
  for (const Op& op : sequence.ops) {
    std::uint32_t& first = first_kind[std::size_t{static_cast<std::uint8_t>(op.what)} * num_items + op.item];
    std::uint32_t kind = first;
    while (kind != kNone && kinds_[kind].flags != op.flags) kind = kinds_[kind].next;
    if (kind == kNone) {
      kind = add_kind(op, tables, found);
      kinds_[kind].next = first;
      first = kind;
    }
    kind_of_op_.push_back(kind);
  }
}

std::uint32_t Touches::add_kind(const Op& op, const Tables& tables, Effects& found) {
  effects(op, tables, found);
  Kind kind{static_cast<std::uint32_t>(touches_.size()), 0, op.flags, kNone};
  const auto add = [&](const std::vector<Cell>& cells, How how) {
    for (const Cell& cell : cells) {
      auto& blocks = block_of_[static_cast<std::size_t>(cell.kind)];
      if (cell.item >= blocks.size()) blocks.resize(cell.item + 1, kNone);
      const bool of_micro = is_of_micro(cell.kind);
      if (blocks[cell.item] == kNone) {
        blocks[cell.item] = num_cells_;
        blocks_.push_back({num_cells_, cell.kind, cell.item});
        num_cells_ += of_micro ? static_cast<std::uint32_t>(tables.num_micro) : 1;
      }
      touches_.push_back({blocks[cell.item], cell.item, cell.kind, how, of_micro});
    }
  };
  add(found.reads, How::reads);
  add(found.returns, How::returns);
  add(found.makes, How::makes);
  add(found.adds, How::adds);
  add(found.leaves, How::leaves);
  add(found.ends, How::ends);
  kind.size = static_cast<std::uint32_t>(touches_.size()) - kind.first;
  kinds_.push_back(kind);
  return static_cast<std::uint32_t>(kinds_.size() - 1);
}

Cell Touches::cell(std::uint32_t number) const {
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), number,
                                      [](std::uint32_t n, const Block& block) { return n < block.first; });
  const Block& block = *(after - 1);
  const bool of_micro = is_of_micro(block.kind);
  return {block.kind, block.item, of_micro ? static_cast<std::int32_t>(number - block.first) : kOfStep};
}

}  // namespace tessera::program
