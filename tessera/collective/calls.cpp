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

void Tally::add(const Call& call) {
  const std::scoped_lock lock(mutex_);
  Volume& volume = volumes_[at(call.kind)][at(call.direction)];
  ++volume.calls;
  volume.bytes += call.bytes;
  if (keeps_list_) list_.push_back(call);
}

Volume Tally::volume(CallKind kind, CallDirection direction) const {
  const std::scoped_lock lock(mutex_);
  return volumes_[at(kind)][at(direction)];
}

Volume Tally::volume(CallKind kind) const {
  const Volume forward = volume(kind, CallDirection::forward),
               backward = volume(kind, CallDirection::backward);
  return {forward.calls + backward.calls, forward.bytes + backward.bytes};
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
