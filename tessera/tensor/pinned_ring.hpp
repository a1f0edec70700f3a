// The way between an accelerator's memory and bytes of the host that it can't reach by itself: chunk by chunk
// through pinned memory, of which there is little.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "tessera/tensor/device.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::tensor {

// One caller at a time. Tensors are dense; those of a CPU are handed over as they are, in one piece.
class PinnedRing {
 public:
  static constexpr std::size_t kChunk = std::size_t{4} << 20;

  using Take = std::function<void(std::span<const std::byte> bytes, std::size_t offset)>;
  using Fill = std::function<void(std::span<std::byte> bytes, std::size_t offset)>;

  // Calls `take` with the tensor's bytes, in order; the next chunk is on its way meanwhile.
  void read(const Tensor& t, const Take& take);
  // Calls `fill` for the tensor's bytes, in order; the chunk before is on its way meanwhile, and the last one
  // when it returns.
  void write(const Tensor& t, const Fill& fill);

 private:
  struct Chunk {
    Tensor memory;
    std::unique_ptr<Event> used;  // by the last copy
    bool is_busy = false;
  };
  Chunk& free_chunk(std::size_t number, c10::Device device);
  // Copies while the host goes on; `to` or `from` is the chunk's memory.
  static void start(Chunk& chunk, const Tensor& to, const Tensor& from);
  static void finish(Chunk& chunk);

  std::array<Chunk, 2> chunks_;
};

}  // namespace tessera::tensor
