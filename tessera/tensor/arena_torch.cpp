#include "tessera/tensor/arena.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include "tessera/base/error.hpp"
#include "tessera/base/process/resident.hpp"

namespace tessera::tensor {

namespace {

struct Entry {
  Account account;
  Category category = Category::other;
  std::int64_t bytes = 0;
};

// Before the bytes of a small block. The mark tells it from memory that LibTorch took before use_arena() and
// gives back by the allocator of the day instead of the one it came from.
struct Header {
  Entry entry;
  std::uint64_t mark = 0;
};
constexpr std::uint64_t kMark = 0x7e55e7a0'a4e4a000;
constexpr std::size_t kHeaderBytes = Heap::kAlignment;
static_assert(sizeof(Header) <= kHeaderBytes);

Header* header_of(void* block) {
  return std::launder(reinterpret_cast<Header*>(static_cast<char*>(block) - kHeaderBytes));
}

std::int64_t reserved_bytes() {
  // Twice the machine's memory: addresses cost nothing, and holes between blocks need some. Where they are
  // limited, enough is left to threads, small blocks and the copies that checkpoints are written from.
  constexpr std::int64_t kLeastLeft = std::int64_t{768} << 20;
  const std::int64_t ample = 2 * static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const auto limited = limited_address_space();
  if (!limited) return ample;
  const std::int64_t free = limited->free_bytes();
  return std::min(ample, std::max(Heap::kLeastStep, free - std::max(kLeastLeft, free / 3)));
}

// What is not written to takes no memory, and lanes do not meet at the same moments in every step: large
// steps, so that chance makes none later. A limit on data counts them all the same.
std::int64_t step_bytes() {
  constexpr std::int64_t kAmple = std::int64_t{1} << 30;
  rlimit data{};
  getrlimit(RLIMIT_DATA, &data);
  return data.rlim_cur == RLIM_INFINITY ? kAmple : Heap::kLeastStep;
}

class Arena final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* const block = size == 0 ? nullptr : take(static_cast<std::int64_t>(size));
    return {block, block, &give_back, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  Heap::Count count() const { return heap_.count(); }
  void hold_as(void* block, Category category);

 private:
  static void give_back(void* block);
  void* take(std::int64_t bytes);
  void* take_small(Entry entry);
  void* take_large(Entry entry);
  void release(void* block);

  Heap heap_{reserved_bytes(), step_bytes()};
  std::mutex mutex_;
  std::unordered_map<void*, Entry> large_;
};

Arena* the_arena =
    nullptr;  // never destroyed: tensors of static objects are given back after the end of main

void* Arena::take(std::int64_t bytes) {
  Entry entry{Account::current(), current_category(), bytes};
  entry.account.add(entry.category, bytes);
  return bytes < kLargeBytes ? take_small(std::move(entry)) : take_large(std::move(entry));
}

void* Arena::take_small(Entry entry) {
  void* start = nullptr;
  if (posix_memalign(&start, kHeaderBytes, kHeaderBytes + static_cast<std::size_t>(entry.bytes)) != 0)
    throw std::bad_alloc();
  new (start) Header{std::move(entry), kMark};
  return static_cast<char*>(start) + kHeaderBytes;
}

void* Arena::take_large(Entry entry) {
  void* const block = heap_.take(entry.bytes);
  if (block == nullptr) {
    entry.account.add(entry.category, -entry.bytes);
    const auto count = heap_.count();
    TORCH_CHECK(false, "can't allocate memory: you tried to allocate ", entry.bytes, " bytes beside the ",
                count.taken, " that tensors hold");
  }
  const std::scoped_lock lock(mutex_);
  large_.insert_or_assign(block, std::move(entry));
  return block;
}

void Arena::give_back(void* block) {
  if (block != nullptr) the_arena->release(block);
}

void Arena::release(void* block) {
  if (heap_.owns(block)) {
    std::unique_lock lock(mutex_);
    const auto entry = large_.extract(block);
    lock.unlock();
    entry.mapped().account.add(entry.mapped().category, -entry.mapped().bytes);
    heap_.give_back(block);
    return;
  }
  Header* const header = header_of(block);
  if (header->mark != kMark) return c10::free_cpu(block);
  header->entry.account.add(header->entry.category, -header->entry.bytes);
  header->mark = 0;
  header->~Header();
  std::free(header);
}

void Arena::hold_as(void* block, Category category) {
  std::unique_lock lock(mutex_, std::defer_lock);
  Entry* entry = nullptr;
  if (heap_.owns(block)) {
    lock.lock();
    const auto found = large_.find(block);
    if (found != large_.end()) entry = &found->second;
  } else if (header_of(block)->mark == kMark) {
    entry = &header_of(block)->entry;
  }
  if (entry == nullptr || entry->category == category) return;
  entry->account.move(entry->category, category, entry->bytes);
  entry->category = category;
}

}  // namespace

void use_arena() {
  static std::once_flag once;
  std::call_once(once, [] {
    the_arena = new Arena;
    c10::SetCPUAllocator(the_arena, /*priority=*/255);
  });
}

bool uses_arena() { return the_arena != nullptr; }

Heap::Count arena_count() { return the_arena ? the_arena->count() : Heap::Count{}; }

void hold_as(const at::Tensor& t, Category category) {
  if (!the_arena || !t.defined() || !t.is_cpu()) return;
  const auto& data = t.storage().data_ptr();
  if (data.get() != nullptr && data.get_deleter() == the_arena->raw_deleter())
    the_arena->hold_as(data.get_context(), category);
}

}  // namespace tessera::tensor
