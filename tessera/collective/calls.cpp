#include "tessera/collective/calls.hpp"

namespace tessera::collective {
namespace {

template <typename Enum>
std::size_t at(Enum value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

const char* word(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce:
      return "all_reduce";
    case CallKind::all_gather:
      return "all_gather";
    case CallKind::reduce_scatter:
      return "reduce_scatter";
    case CallKind::all_to_all:
      return "all_to_all";
    case CallKind::broadcast:
      return "broadcast";
    case CallKind::send:
      return "send";
  }
  return "?";
}

const char* word(CallDirection direction) {
  return direction == CallDirection::forward ? "forward" : "backward";
}

Volume& Volumes::of(CallKind kind, CallDirection direction) { return volumes[at(kind)][at(direction)]; }
const Volume& Volumes::of(CallKind kind, CallDirection direction) const {
  return volumes[at(kind)][at(direction)];
}
Volume Volumes::of(CallKind kind) const {
  return of(kind, CallDirection::forward) + of(kind, CallDirection::backward);
}

std::int64_t sent_bytes(CallKind kind, std::int64_t bytes, std::int64_t members) {
  switch (kind) {
    case CallKind::all_reduce:
      return 2 * bytes * (members - 1) / members;
    case CallKind::all_gather:
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
      return bytes * (members - 1) / members;
    case CallKind::broadcast:
    case CallKind::send:
      break;
  }
  return bytes;
}

void Tally::add(const Call& call) {
  const std::scoped_lock lock(mutex_);
  Volume& volume = volumes_.of(call.kind, call.direction);
  ++volume.calls;
  volume.bytes += call.bytes;
  if (keeps_list_) list_.push_back(call);
}

Volumes Tally::volumes() const {
  const std::scoped_lock lock(mutex_);
  return volumes_;
}

void Tally::reset(bool keeps_list) {
  const std::scoped_lock lock(mutex_);
  volumes_ = {};
  keeps_list_ = keeps_list;
  list_.clear();
}

std::vector<Call> Tally::list() const {
  const std::scoped_lock lock(mutex_);
  return list_;
}

}  // namespace tessera::collective
