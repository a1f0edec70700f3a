#include "tessera/engine/call_count.hpp"

#include <algorithm>
#include <map>

namespace tessera::engine {

using collective::Volume;
using collective::Volumes;
using program::Op;
using program::OpKind;

namespace {

bool comes_last(program::Role role) { return role == program::Role::norm || role == program::Role::finite; }

}  // namespace

// Note [Whose calls]
// Lanes run beside each other, so an op's calls are told by their group: a communication op calls the group
// that it goes along (a receive none: it may run beside a send of the same group); a segment calls those
// along which no such op runs beside it, as the sums of the norm and of what is finite do not: they come
// after the last reduction.
CallCount::CallCount(const program::Sequence& sequence, const program::Tables& tables,
                     std::span<const collective::Group> groups)
    : tables_(tables), groups_(groups) {
  for (std::size_t set = 0; set < groups.size(); ++set) all_.push_back(static_cast<std::int16_t>(set));
  std::ranges::copy_if(all_, std::back_inserter(of_compute_), [&](std::int16_t set) {
    return std::ranges::none_of(sequence.ops, [&](const Op& op) {
      return op.along == set && !(op.what == OpKind::sum && comes_last(tables.numbers[op.item].role));
    });
  });
  begin_step();
}

std::span<const std::int16_t> CallCount::sets_of(const Op& op) const {
  if (program::is_compute(op.what)) return of_compute_;
  if (op.along < 0 || op.what == OpKind::receive) return {};
  return std::span(all_).subspan(static_cast<std::size_t>(op.along), 1);
}

CallCount::Before CallCount::before(const Op& op) const {
  Before out;
  for (const std::int16_t set : sets_of(op))
    out.push_back(groups_[static_cast<std::size_t>(set)].tally().volumes());
  return out;
}

std::vector<OpCalls> CallCount::since(const Op& op, const Before& before) const {
  std::vector<OpCalls> out;
  const auto sets = sets_of(op);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const Volumes now = groups_[static_cast<std::size_t>(sets[i])].tally().volumes();
    for (const auto kind : collective::kCallKinds)
      for (const auto direction : collective::kCallDirections)
        if (const Volume volume = now.of(kind, direction) - before[i].of(kind, direction); volume.calls > 0)
          out.push_back({sets[i], kind, direction, volume});
  }
  return out;
}

void CallCount::begin_step() {
  at_begin_.clear();
  for (const auto& group : groups_) at_begin_.push_back(group.tally().volumes());
}

std::vector<MovedAlong> CallCount::of_step() const {
  std::vector<MovedAlong> out;
  for (std::size_t set = 0; set < groups_.size(); ++set) {
    const Volumes now = groups_[set].tally().volumes();
    for (const auto kind : collective::kCallKinds)
      if (const Volume volume = now.of(kind) - at_begin_[set].of(kind); volume.calls > 0)
        out.push_back(moved(set, kind, volume));
  }
  return out;
}

std::vector<MovedAlong> CallCount::sum_of(const std::vector<OpCalls>& calls) const {
  std::map<std::pair<std::int16_t, collective::CallKind>, Volume> sums;
  for (const OpCalls& call : calls) {
    Volume& sum = sums[{call.axes, call.kind}];
    sum.calls += call.volume.calls;
    sum.bytes += call.volume.bytes;
  }
  std::vector<MovedAlong> out;
  for (const auto& [which, volume] : sums)
    out.push_back(moved(static_cast<std::size_t>(which.first), which.second, volume));
  return out;
}

MovedAlong CallCount::moved(std::size_t set, collective::CallKind kind, const Volume& volume) const {
  // Workers and servers keep nothing of what they exchange.
  const bool is_served = kind == collective::CallKind::all_to_all &&
                         std::ranges::any_of(tables_.axis_sets[set].axes, [&](std::int16_t axis) {
                           return tables_.axes[static_cast<std::size_t>(axis)].servers > 0;
                         });
  return {tables_.axis_sets[set].name, collective::word(kind), volume.calls, volume.bytes,
          is_served ? volume.bytes : collective::sent_bytes(kind, volume.bytes, groups_[set].size())};
}

}  // namespace tessera::engine
