// What did a group do? Every operation of a Group is counted, by kind and direction: calls and bytes. Bytes are those of the
// whole array: an all-gather's output, a reduce-scatter's input, the tensor of an all-reduce, a broadcast or a send, this
// rank's input of an all-to-all. Barriers, receives and groups of one count nothing.
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
  bool operator==(const Volume&) const = default;
};

// The count of one group on one rank, shared by copies of the Group. Any thread may call it.
class Tally {
 public:
  void add(const Call& call);
  // Since the start or the last reset.
  Volume volume(CallKind kind, CallDirection direction) const;
  Volume volume(CallKind kind) const;
  // Back to nothing; with `keeps_list` every call from now on is kept, in order, for whoever compares them one by one.
  void reset(bool keeps_list = false);
  std::vector<Call> list() const;

 private:
  mutable std::mutex mutex_;
  std::array<std::array<Volume, kCallDirections.size()>, kCallKinds.size()> volumes_;
  bool keeps_list_ = false;
  std::vector<Call> list_;
};

}  // namespace tessera::collective
