// The memory of a rank's slots: where the program says that cells lie (program/memory/slots.hpp).
#pragma once

#include <optional>

#include "tessera/program/memory/slots.hpp"
#include "tessera/tensor/slab.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::engine {

class SlotMemory {
 public:
  // `slots` may be nothing, and must else outlive it, as the sequence does.
  SlotMemory(const program::Sequence& sequence, const program::Slots* slots, at::Device device)
      : sequence_(sequence), slots_(slots) {
    if (slots_ && slots_->bytes > 0) slab_.emplace(slots_->bytes, device);
  }

  // For the cell that the op makes; undefined where that has no slot. Any lane may call it.
  tensor::Tensor memory(const program::Op& op, const program::Cell& cell, at::IntArrayRef shape,
                        at::ScalarType dtype) const {
    if (!slab_) return {};
    for (const program::Slot& slot : slots_->of(static_cast<std::uint32_t>(&op - sequence_.ops.data())))
      if (slot.cell == cell) return slab_->at(slot.offset, shape, dtype);
    return {};
  }

 private:
  const program::Sequence& sequence_;
  const program::Slots* slots_;
  std::optional<tensor::Slab> slab_;
};

}  // namespace tessera::engine
