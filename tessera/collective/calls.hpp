// The counts of a group's operations by kind and direction: calls and bytes. Bytes are those of the whole
// array: an all-gather's output, a reduce-scatter's input, the tensor of an all-reduce, a broadcast or a
// send, this rank's input of an all-to-all. Barriers, receives and groups of one count nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tessera::collective {

enum class CallKind { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send };
inline constexpr std::array kCallKinds = {CallKind::all_reduce,     CallKind::all_gather,
                                          CallKind::reduce_scatter, CallKind::all_to_all,
                                          CallKind::broadcast,      CallKind::send};

// backward: called by autograd while it differentiates; forward: all else, the ops of a program among it.
enum class CallDirection { forward, backward };
inline constexpr std::array kCallDirections = {CallDirection::forward, CallDirection::backward};

const char* word(CallKind kind);
const char* word(CallDirection direction);

struct Call {
  CallKind kind = CallKind::all_reduce;
  CallDirection direction = CallDirection::forward;
  std::int64_t bytes = 0;
  bool operator==(const Call&) const = default;
};

struct Volume {
  std::int64_t calls = 0, bytes = 0;
  Volume operator+(const Volume& more) const { return {calls + more.calls, bytes + more.bytes}; }
  Volume operator-(const Volume& less) const { return {calls - less.calls, bytes - less.bytes}; }
  bool operator==(const Volume&) const = default;
};

// By kind and direction.
struct Volumes {
  std::array<std::array<Volume, kCallDirections.size()>, kCallKinds.size()> volumes = {};
  Volume& of(CallKind kind, CallDirection direction);
  const Volume& of(CallKind kind, CallDirection direction) const;
  Volume of(CallKind kind) const;
  bool operator==(const Volumes&) const = default;
};

// Of arrays of `bytes` what one of the members sends when they go round a ring: (n-1)/n, twice that for an
// all-reduce, all of it for a broadcast and a send.
std::int64_t sent_bytes(CallKind kind, std::int64_t bytes, std::int64_t members);

// The count of one group on one rank, shared by copies of the Group. Any thread may call it.
class Tally {
 public:
  void add(const Call& call);
  // Since the start or the last reset.
  Volumes volumes() const;
  Volume volume(CallKind kind, CallDirection direction) const { return volumes().of(kind, direction); }
  Volume volume(CallKind kind) const { return volumes().of(kind); }
  // Back to nothing; with `keeps_list` every call from now on is kept, in order, for whoever compares them
  // one by one.
  void reset(bool keeps_list = false);
  std::vector<Call> list() const;

 private:
  mutable std::mutex mutex_;
  Volumes volumes_;
  bool keeps_list_ = false;
  std::vector<Call> list_;
};

}  // namespace tessera::collective
