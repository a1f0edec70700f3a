#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/testing/async_device/witness.hpp"

namespace tessera::async_device {
namespace {

constexpr int kPoison = 0xff;
constexpr std::size_t kAlignment = 64;

}  // namespace

std::map<std::byte*, Witness::Block>::iterator Witness::block_of(const std::byte* address) {
  auto next = blocks_.upper_bound(const_cast<std::byte*>(address));
  if (next == blocks_.begin()) return blocks_.end();
  --next;
  return address < next->first + next->second.bytes ? next : blocks_.end();
}

std::string Witness::text_of(const Block& block) {
  return cat("the ", block.bytes, " bytes made by ", block.made_by.empty() ? "nobody yet" : block.made_by);
}

// Of a range in which the caller places tensors: what wrote that part last.
std::string Witness::text_of(const Block& block, std::size_t begin, std::size_t end) {
  for (auto seen = block.seen.rbegin(); seen != block.seen.rend(); ++seen)
    if (seen->writes && seen->begin < end && begin < seen->end && seen->end - seen->begin < block.bytes)
      return cat("the ", seen->end - seen->begin, " bytes made by ", seen->doing);
  return text_of(block);
}

// What came before on the same memory must be known to come before: it is on the same stream, or the stream,
// or the host that gives the task, has waited for it.
void Witness::touch(Stream& stream, std::uint64_t task, const std::string& doing, const Access& access) {
  if (access.bytes == 0) return;
  const auto found = block_of(access.begin);
  if (found == blocks_.end())
    return add_problem(cat("use after free: ", doing, " touches memory that is gone"));
  auto& [start, block] = *found;
  const auto begin = static_cast<std::size_t>(access.begin - start), end = begin + access.bytes;
  const Clock& clock = clocks_[stream.number()];
  for (const Seen& other : block.seen) {
    const bool meets = other.begin < end && begin < other.end && (other.writes || access.writes);
    if (!meets || other.stream == &stream || knows(clock, other.stream->number(), other.task)) continue;
    add_problem(cat("race: ", doing, access.writes ? " writes " : " reads ", text_of(block, begin, end),
                    " on ", stream.name(), ", and nothing orders it after ", other.doing,
                    other.writes ? ", which writes it on " : ", which reads it on ", other.stream->name()));
  }
  std::erase_if(block.seen, [&](const Seen& other) {
    const bool is_covered = begin <= other.begin && other.end <= end && other.writes <= access.writes;
    return is_covered && (other.stream == &stream || knows(clock, other.stream->number(), other.task));
  });
  block.seen.push_back({&stream, task, begin, end, access.writes, doing});
  if (access.writes && block.made_by.empty()) block.made_by = doing;
}

std::byte* Witness::allocate(std::size_t bytes, Stream& owner) {
  const std::size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, room));
  TESSERA_CHECK(memory, "no memory for ", bytes, " bytes");
  std::memset(memory, kPoison, room);
  const std::scoped_lock lock(mutex_);
  look_for_freed();
  Counts& counts = counts_[owner.device()];
  counts.bytes_held -= give_back(held_[owner.device()]);
  // The stream's earlier tasks may still use the same bytes, under another name: others come after them.
  blocks_[memory] = {.bytes = bytes,
                     .owner = &owner,
                     .seen = {{&owner, owner.given(), 0, bytes, true, doing(owner, "allocation")}}};
  counts.bytes_held += static_cast<std::int64_t>(bytes);
  counts.most_bytes_held = std::max(counts.most_bytes_held, counts.bytes_held);
  return memory;
}

// Given back to its stream, whose next tasks may use it at once; to a recorded one's wish only when that is
// past what it has been given. Who else has used it must be known to be done: to one of these, or to the
// host.
void Witness::release(std::byte* memory) {
  const std::scoped_lock lock(mutex_);
  auto node = blocks_.extract(memory);
  TESSERA_CHECK(!node.empty(), "memory that was not allocated is released");
  Block& block = node.mapped();
  Clock known = clocks_[block.owner->number()];
  join(known, host_clock());
  join(known, block.known);
  Freed freed{memory, block.bytes, {{block.owner, block.owner->given()}}};
  for (Stream* user : block.recorded) {
    freed.users.emplace_back(user, user->given());
    join(known, clocks_[user->number()]);
  }
  for (const Seen& seen : block.seen) {
    const bool is_safe = seen.stream == block.owner || block.recorded.contains(seen.stream) ||
                         knows(known, seen.stream->number(), seen.task);
    if (is_safe) continue;
    add_problem(cat("freed too early: ", text_of(block), " on ", block.owner->name(), ", while ", seen.doing,
                    " may still use it on ", seen.stream->name()));
    freed.users.emplace_back(seen.stream, seen.task);
  }
  if (freed.users.size() > 1) {
    held_[block.owner->device()].push_back(std::move(freed));
  } else {  // the owner's own next tasks may have it at once
    counts_[block.owner->device()].bytes_held -= static_cast<std::int64_t>(freed.bytes);
    freed_.push_back(std::move(freed));
  }
}

void Witness::watch(std::byte* memory, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  blocks_[memory] = {.bytes = bytes};
}

void Witness::forget(std::byte* memory) {
  const std::scoped_lock lock(mutex_);
  blocks_.erase(memory);
}

// To look for those that can go costs time: the next look comes when there are twice as many as were left.
void Witness::look_for_freed() {
  constexpr std::size_t kFewFreed = 256;
  if (freed_.size() < look_at_) return;
  give_back(freed_);
  look_at_ = std::max(kFewFreed, 2 * freed_.size());
}

std::int64_t Witness::give_back(std::vector<Freed>& list) {
  std::int64_t bytes = 0;
  if (failure_.is_there()) return bytes;  // who is done, nobody knows
  std::erase_if(list, [&](const Freed& freed) {
    const bool is_free =
        std::ranges::all_of(freed.users, [](const auto& user) { return user.first->is_done(user.second); });
    if (!is_free) return false;
    std::memset(freed.memory, kPoison, freed.bytes);
    std::free(freed.memory);
    bytes += static_cast<std::int64_t>(freed.bytes);
    return true;
  });
  return bytes;
}

void Witness::record(const std::byte* address, Stream& user) {
  if (omits(Omission::Kind::record_stream, user)) return;
  const std::scoped_lock lock(mutex_);
  if (const auto found = block_of(address); found != blocks_.end() && &user != found->second.owner)
    found->second.recorded.insert(&user);
}

void Witness::let_go(const std::byte* address) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = block_of(address); found != blocks_.end()) join(found->second.known, host_clock());
}

void Witness::count_pageable_copy(int device) {
  const std::scoped_lock lock(mutex_);
  ++counts_[device].pageable_copies;
}

}  // namespace tessera::async_device
