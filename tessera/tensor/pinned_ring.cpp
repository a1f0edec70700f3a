#include "tessera/tensor/pinned_ring.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::tensor {
namespace {

std::span<std::byte> bytes_in(const Tensor& t) { return {static_cast<std::byte*>(t.data_ptr()), t.nbytes()}; }

}  // namespace

void PinnedRing::start(Chunk& chunk, const Tensor& to, const Tensor& from) {
  to.copy_(from, /*non_blocking=*/true);
  chunk.used->record();
  chunk.is_busy = true;
}

void PinnedRing::finish(Chunk& chunk) {
  if (chunk.is_busy) chunk.used->synchronize();
  chunk.is_busy = false;
}

PinnedRing::Chunk& PinnedRing::free_chunk(std::size_t number, c10::Device device) {
  Chunk& chunk = chunks_[number % chunks_.size()];
  if (!chunk.memory.defined()) {
    chunk.memory = pinned({static_cast<std::int64_t>(kChunk)}, at::kByte);
    chunk.used = std::make_unique<Event>(device);
  }
  finish(chunk);
  return chunk;
}

void PinnedRing::read(const Tensor& t, const Take& take) {
  TESSERA_CHECK(t.is_contiguous(), "what passes the ring is not dense");
  if (t.is_cpu()) return take(bytes_in(t), 0);
  const std::size_t size = t.nbytes(), num_chunks = (size + kChunk - 1) / kChunk;
  const Tensor flat = t.view({-1}).view(at::kByte);
  const auto length = [&](std::size_t number) { return std::min(kChunk, size - number * kChunk); };
  const auto hand_over = [&](std::size_t number) {
    Chunk& chunk = chunks_[number % chunks_.size()];
    finish(chunk);
    take(bytes_in(chunk.memory).first(length(number)), number * kChunk);
  };
  for (std::size_t number = 0; number < num_chunks; ++number) {
    Chunk& chunk = free_chunk(number, t.device());
    const auto count = static_cast<std::int64_t>(length(number));
    start(chunk, chunk.memory.narrow(0, 0, count),
          flat.narrow(0, static_cast<std::int64_t>(number * kChunk), count));
    if (number > 0) hand_over(number - 1);
  }
  if (num_chunks > 0) hand_over(num_chunks - 1);
}

void PinnedRing::write(const Tensor& t, const Fill& fill) {
  TESSERA_CHECK(t.is_contiguous(), "what passes the ring is not dense");
  if (t.is_cpu()) return fill(bytes_in(t), 0);
  const Tensor flat = t.view({-1}).view(at::kByte);
  for (std::size_t begin = 0, number = 0; begin < t.nbytes(); begin += kChunk, ++number) {
    Chunk& chunk = free_chunk(number, t.device());
    const auto count = static_cast<std::int64_t>(std::min(kChunk, t.nbytes() - begin));
    fill(bytes_in(chunk.memory).first(static_cast<std::size_t>(count)), begin);
    start(chunk, flat.narrow(0, static_cast<std::int64_t>(begin), count), chunk.memory.narrow(0, 0, count));
  }
}

}  // namespace tessera::tensor
