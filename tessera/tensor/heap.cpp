#include "tessera/tensor/heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "tessera/base/error.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace tessera::tensor {

namespace {
std::int64_t rounded(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }
}  // namespace

Heap::Heap(std::int64_t reserved_bytes, std::int64_t step_bytes) : step_(step_bytes) {
  for (reserved_ = rounded(reserved_bytes, kLeastStep); reserved_ >= kLeastStep;
       reserved_ = reserved_ / 2 / kLeastStep * kLeastStep) {
    // Without access: neither memory nor a promise of it, and not counted by RLIMIT_DATA.
    void* found = mmap(nullptr, static_cast<std::size_t>(reserved_), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) continue;
    base_ = static_cast<char*>(found);
    count_.reserved = reserved_;
    return;
  }
  throw std::bad_alloc();
}

Heap::~Heap() {
  ASAN_UNPOISON_MEMORY_REGION(base_, static_cast<std::size_t>(count_.committed));
  munmap(base_, static_cast<std::size_t>(reserved_));
}

void* Heap::take(std::int64_t bytes) {
  const std::int64_t size = rounded(std::max<std::int64_t>(bytes, 1), kAlignment);
  const std::scoped_lock lock(mutex_);
  auto best = free_.lower_bound({size, 0});
  if (best == free_.end()) {
    if (!grow(size)) return nullptr;
    best = free_.lower_bound({size, 0});
  }
  const auto [found, offset] = *best;
  free_.erase(best);
  blocks_[offset] = {size, false};
  if (found > size) {
    blocks_[offset + size] = {found - size, true};
    free_.emplace(found - size, offset + size);
  }
  count_.taken += size;
  count_.most_used = std::max(count_.most_used, offset + size);
  ASAN_UNPOISON_MEMORY_REGION(base_ + offset, static_cast<std::size_t>(bytes));
  return base_ + offset;
}

void Heap::give_back(void* block) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t offset = static_cast<char*>(block) - base_;
  const auto found = blocks_.find(offset);
  TESSERA_CHECK(found != blocks_.end() && !found->second.free, "memory is given back that was not taken");
  count_.taken -= found->second.size;
  ASAN_POISON_MEMORY_REGION(base_ + offset, static_cast<std::size_t>(found->second.size));
  release(offset, found->second.size);
}

// Makes [offset, offset + size) free, joined with its neighbours.
void Heap::release(std::int64_t offset, std::int64_t size) {
  auto next = blocks_.lower_bound(offset + size);
  if (next != blocks_.end() && next->second.free) {
    free_.erase({next->second.size, next->first});
    size += next->second.size;
    next = blocks_.erase(next);
  }
  const auto before = blocks_.lower_bound(offset);
  if (before != blocks_.begin() && std::prev(before)->second.free) {
    const auto joined = std::prev(before);
    free_.erase({joined->second.size, joined->first});
    if (before != blocks_.end() && before->first == offset) blocks_.erase(before);
    offset = joined->first;
    size += joined->second.size;
  }
  blocks_[offset] = {size, true};
  free_.emplace(size, offset);
}

bool Heap::grow(std::int64_t bytes) {
  const std::int64_t end = count_.committed;
  const bool joins = !blocks_.empty() && blocks_.rbegin()->second.free;
  const std::int64_t there = joins ? blocks_.rbegin()->second.size : 0;
  if (end + bytes - there > reserved_) return false;
  for (const std::int64_t step : {step_, kLeastStep}) {
    const std::int64_t more = std::min(rounded(bytes - there, step), reserved_ - end);
    if (mprotect(base_ + end, static_cast<std::size_t>(more), PROT_READ | PROT_WRITE) != 0) continue;
    count_.committed += more;
    ++count_.growths;
    ASAN_POISON_MEMORY_REGION(base_ + end, static_cast<std::size_t>(more));
    release(end, more);
    return true;
  }
  return false;
}

Heap::Count Heap::count() const {
  const std::scoped_lock lock(mutex_);
  return count_;
}

}  // namespace tessera::tensor
