#include "tessera/testing/async_device/witness.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::async_device {
namespace {

constexpr int kPoison = 0xff;
constexpr std::size_t kAlignment = 64;

std::string text_of_stream(const Stream& stream) {
  return stream.id() == 0 ? "the default stream" : cat("stream ", stream.id());
}

std::uint64_t next_life() {
  static std::atomic<std::uint64_t> count = 0;
  return ++count;
}

}  // namespace

Witness::Witness(const Pace& pace, std::function<void()> prepare, Omission omission)
    : pace_(pace), prepare_(std::move(prepare)), omission_(std::move(omission)), life_(next_life()) {}

Witness::~Witness() {
  streams_.clear();
  for (const auto* list : {&freed_, &held_})
    for (const Freed& freed : *list) std::free(freed.memory);
}

Stream& Witness::make(int device, std::int64_t id) {
  clocks_.emplace_back();
  labels_.emplace_back();
  return *streams_.emplace_back(
      std::make_unique<Stream>(streams_.size(), device, id, pace_, failure_, prepare_));
}

Stream& Witness::default_stream(int device) {
  const std::scoped_lock lock(mutex_);
  auto& own = of_device_[device];
  if (own.empty()) own.push_back(&make(device, 0));
  return *own.front();
}

Stream& Witness::new_stream(int device) {
  const std::scoped_lock lock(mutex_);
  default_stream(device);
  auto& own = of_device_[device];
  own.push_back(&make(device, std::ssize(own)));
  return *own.back();
}

Stream& Witness::stream(int device, std::int64_t id) {
  const std::scoped_lock lock(mutex_);
  if (id == 0) return default_stream(device);
  return *of_device_.at(device).at(static_cast<std::size_t>(id));
}

Clock& Witness::host_clock() const {
  thread_local std::pair<std::uint64_t, Clock> own;
  if (own.first != life_) own = {life_, {}};
  return own.second;
}

std::map<std::byte*, Witness::Block>::iterator Witness::block_of(const std::byte* address) {
  auto next = blocks_.upper_bound(const_cast<std::byte*>(address));
  if (next == blocks_.begin()) return blocks_.end();
  --next;
  return address < next->first + next->second.bytes ? next : blocks_.end();
}

std::string Witness::text_of(const Block& block) {
  return cat("the ", block.bytes, " bytes made by ", block.made_by.empty() ? "nobody yet" : block.made_by);
}

std::string Witness::doing(const Stream& stream, const std::string& op) const {
  const std::string& label = labels_[stream.number()];
  return label.empty() ? op : cat(op, " of ", label);
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
    add_problem(cat("race: ", doing, access.writes ? " writes " : " reads ", text_of(block), " on ",
                    text_of_stream(stream), ", and nothing orders it after ", other.doing,
                    other.writes ? ", which writes it on " : ", which reads it on ",
                    text_of_stream(*other.stream)));
  }
  std::erase_if(block.seen, [&](const Seen& other) {
    const bool is_covered = begin <= other.begin && other.end <= end && other.writes <= access.writes;
    return is_covered && (other.stream == &stream || knows(clock, other.stream->number(), other.task));
  });
  block.seen.push_back({&stream, task, begin, end, access.writes, doing});
  if (access.writes && block.made_by.empty()) block.made_by = doing;
}

Point Witness::issue(Stream& stream, const std::string& op, std::span<const Access> touched,
                     std::function<void()> task, const Stream* caller) {
  const std::scoped_lock lock(mutex_);
  ++counts_[stream.device()].launches[op];
  Clock& clock = clocks_[stream.number()];
  join(clock, host_clock());
  const std::uint64_t number = stream.given() + 1;
  const std::string what = doing(caller ? *caller : stream, op);
  for (const Access& access : touched) touch(stream, number, what, access);
  clock.resize(std::max(clock.size(), stream.number() + 1));
  clock[stream.number()] = number;
  stream.give(what, std::move(task));
  return {&stream, number, clock};
}

void Witness::label(Stream& stream, std::string text) {
  const std::scoped_lock lock(mutex_);
  labels_[stream.number()] = std::move(text);
}

Point Witness::now(Stream& stream) {
  const std::scoped_lock lock(mutex_);
  Point out{&stream, stream.given(), clocks_[stream.number()]};
  join(out.clock, host_clock());
  return out;
}

bool Witness::omits(Omission::Kind kind, std::string_view where) {
  if (kind != omission_.kind || where != omission_.where) return false;
  const std::scoped_lock lock(mutex_);
  ++num_omitted_;
  return true;
}

bool Witness::omits(Omission::Kind kind, const Stream& stream) {
  if (kind != omission_.kind) return false;
  const std::scoped_lock lock(mutex_);
  const std::string_view label = labels_[stream.number()];
  const std::size_t letter = label.find_first_not_of("0123456789");
  return letter != std::string_view::npos && omits(kind, label.substr(letter, 1));
}

std::int64_t Witness::num_omitted() const {
  const std::scoped_lock lock(mutex_);
  return num_omitted_;
}

void Witness::order(Stream& later, const Point& point) {
  if (!point.stream || point.stream == &later) return;
  const std::scoped_lock lock(mutex_);
  if (covers(clocks_[later.number()], point.clock)) return;
  join(clocks_[later.number()], point.clock);
  if (point.stream->is_done(point.task)) return;
  issue(later, "wait for an event", {}, [point] { point.stream->wait_for(point.task); });
}

bool Witness::has_passed(const Point& point) {
  if (!point.stream) return true;
  if (!point.stream->is_done(point.task)) return false;
  join(host_clock(), point.clock);
  return true;
}

void Witness::host_wait(const Point& point, const std::string& why) {
  if (!point.stream) return;
  {
    const std::scoped_lock lock(mutex_);
    ++counts_[point.stream->device()].host_waits[why];
  }
  point.stream->wait_for(point.task);
  join(host_clock(), point.clock);
}

void Witness::finish(int device) {
  std::vector<Stream*> own;
  {
    const std::scoped_lock lock(mutex_);
    own = of_device_[device];
  }
  for (const Stream* stream : own) stream->wait_for(stream->given());
}

std::byte* Witness::allocate(std::size_t bytes, Stream& owner) {
  const std::size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, room));
  TESSERA_CHECK(memory, "no memory for ", bytes, " bytes");
  std::memset(memory, kPoison, room);
  constexpr std::size_t kMostFreed = 256;  // at a time: to look for those that can go costs time
  const std::scoped_lock lock(mutex_);
  if (freed_.size() > kMostFreed) give_back(freed_);
  for (const auto& [device, given_back] : give_back(held_)) counts_[device].bytes_held -= given_back;
  // The stream's earlier tasks may still use the same bytes, under another name: others come after them.
  blocks_[memory] = {.bytes = bytes,
                     .owner = &owner,
                     .seen = {{&owner, owner.given(), 0, bytes, true, doing(owner, "allocation")}}};
  Counts& counts = counts_[owner.device()];
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
    add_problem(cat("freed too early: ", text_of(block), " on ", text_of_stream(*block.owner), ", while ",
                    seen.doing, " may still use it on ", text_of_stream(*seen.stream)));
    freed.users.emplace_back(seen.stream, seen.task);
  }
  if (freed.users.size() > 1) {
    held_.push_back(std::move(freed));
  } else {  // the owner's own next tasks may have it at once
    counts_[block.owner->device()].bytes_held -= static_cast<std::int64_t>(freed.bytes);
    freed_.push_back(std::move(freed));
  }
}

std::map<int, std::int64_t> Witness::give_back(std::vector<Freed>& list) {
  std::map<int, std::int64_t> bytes;
  if (failure_.is_there()) return bytes;  // who is done, nobody knows
  std::erase_if(list, [&](const Freed& freed) {
    const bool is_free =
        std::ranges::all_of(freed.users, [](const auto& user) { return user.first->is_done(user.second); });
    if (!is_free) return false;
    std::memset(freed.memory, kPoison, freed.bytes);
    std::free(freed.memory);
    bytes[freed.users.front().first->device()] += static_cast<std::int64_t>(freed.bytes);
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

Counts Witness::counts(int device) const {
  const std::scoped_lock lock(mutex_);
  const auto found = counts_.find(device);
  return found == counts_.end() ? Counts() : found->second;
}

void Witness::forget_counts() {
  const std::scoped_lock lock(mutex_);
  for (auto& [device, counts] : counts_)
    counts = {.bytes_held = counts.bytes_held, .most_bytes_held = counts.bytes_held};
}

std::map<std::string, std::int64_t> Witness::problems() const {
  const std::scoped_lock lock(mutex_);
  return problems_;
}

std::uint64_t Witness::num_done() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& stream : streams_) sum += stream->done();
  return sum;
}

std::vector<std::string> Witness::busy() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> out;
  for (const auto& stream : streams_)
    if (const auto at = stream->is_at())
      out.push_back(cat("device ", stream->device(), ", ", text_of_stream(*stream), ": ", *at));
  return out;
}

}  // namespace tessera::async_device
