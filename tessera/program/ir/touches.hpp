// The cells that each op of a sequence touches. The effects of its ops, worked out once for each kind of op,
// with cells as small numbers: what is kept per cell is a flat array of the cells that this sequence knows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/program/ir/effects.hpp"

namespace tessera::program {

// What an op does to a cell. In this order they act within an op; all but `reads` change the cell.
enum class How : std::uint8_t { reads, returns, makes, adds, leaves, ends };

struct Touch {
  std::uint32_t first = 0;  // the number of its cell; of one per micro-batch, that of micro-batch 0
  std::uint32_t item = 0;
  CellKind kind = CellKind::value;
  How how = How::reads;
  bool is_of_micro = false;
};

class Touches {
 public:
  // Indices of ops lie within the tables.
  Touches(const Sequence& sequence, const Tables& tables);

  // Of an op, by its index.
  std::span<const Touch> of(std::uint32_t op) const {
    const Kind& kind = kinds_[kind_of_op_[op]];
    return {touches_.data() + kind.first, kind.size};
  }
  // The number of the cell that the op touches so, below num_cells().
  std::uint32_t number(const Touch& touch, const Op& op) const {
    return touch.first + (touch.is_of_micro ? static_cast<std::uint32_t>(op.micro) : 0);
  }
  std::uint32_t num_cells() const { return num_cells_; }
  // The cell of a number.
  Cell cell(std::uint32_t number) const;

 private:
  struct Kind {  // of ops: equal effects but for the micro-batch
    std::uint32_t first, size;
    std::uint16_t flags;
    std::uint32_t next;  // another kind of the same `what` and item
  };
  struct Block {  // of cells: one, or one per micro-batch
    std::uint32_t first;
    CellKind kind;
    std::uint32_t item;
  };
  std::uint32_t add_kind(const Op& op, const Tables& tables, Effects& found);

  std::vector<std::uint32_t> kind_of_op_;
  std::vector<Kind> kinds_;
  std::vector<Touch> touches_;
  std::vector<Block> blocks_;                           // by first number
  std::vector<std::uint32_t> block_of_[kNumCellKinds];  // by item
  std::uint32_t num_cells_ = 0;
};

// The cell of a touch of this op.
inline Cell cell_of(const Touch& touch, const Op& op) {
  return {touch.kind, touch.item, touch.is_of_micro ? op.micro : kOfStep};
}

}  // namespace tessera::program
