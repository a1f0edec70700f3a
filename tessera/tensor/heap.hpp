// Shares out one range of addresses: best fit, split and joined again; the system is asked only when the
// range in use grows, and it is asked for large steps.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>

namespace tessera::tensor {

// Invariants: blocks cover [0, committed) without gap; no two free blocks are neighbours; each free block is
// in `free_` by (size, offset). Any thread may call anything.
class Heap {
 public:
  static constexpr std::int64_t kAlignment = 64;
  static constexpr std::int64_t kLeastStep = std::int64_t{16} << 20;  // of a growth

  // Reserves addresses, half as many as long as the system refuses; throws std::bad_alloc when it refuses
  // all. Grows by multiples of the step, or of the least one where the system refuses that.
  explicit Heap(std::int64_t reserved_bytes, std::int64_t step_bytes = kLeastStep);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Aligned; nullptr when neither the range nor the system has room.
  void* take(std::int64_t bytes);
  void give_back(void* block);
  bool owns(const void* address) const { return address >= base_ && address < base_ + reserved_; }

  struct Count {
    std::int64_t reserved = 0, committed = 0, taken = 0;  // bytes
    std::int64_t growths = 0;                             // how often the system was asked
    std::int64_t most_used = 0;                           // highest end of a block that was ever taken
  };
  Count count() const;

 private:
  struct Block {
    std::int64_t size = 0;
    bool free = false;
  };
  bool grow(std::int64_t bytes);
  void release(std::int64_t offset, std::int64_t size);

  char* base_ = nullptr;
  std::int64_t reserved_ = 0, step_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, Block> blocks_;                  // by offset
  std::set<std::pair<std::int64_t, std::int64_t>> free_;  // (size, offset): the lowest of the best fitting
  Count count_;
};

}  // namespace tessera::tensor
