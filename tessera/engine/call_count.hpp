// Counts the calls of groups by op and by step: differences of the groups' tallies, so that every operation
// of a group is counted in one place.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/base/bytes_moved.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::engine {

// What an op called of one kind.
struct OpCalls {
  std::int16_t axes = -1;  // axis set
  collective::CallKind kind = collective::CallKind::all_reduce;
  collective::CallDirection direction = collective::CallDirection::forward;
  collective::Volume volume;
  bool operator==(const OpCalls&) const = default;
};

// See Note [Whose calls].
class CallCount {
 public:
  using Before = std::vector<collective::Volumes>;

  CallCount(const program::Sequence& sequence, const program::Tables& tables,
            std::span<const collective::Group> groups);

  // What the groups that this op may use have done so far, and since then.
  Before before(const program::Op& op) const;
  std::vector<OpCalls> since(const program::Op& op, const Before& before) const;

  // Of all groups since the last begin_step.
  void begin_step();
  std::vector<MovedAlong> of_step() const;
  // The sum of what these ops called, whatever went on beside them.
  std::vector<MovedAlong> sum_of(const std::vector<OpCalls>& calls) const;

 private:
  std::span<const std::int16_t> sets_of(const program::Op& op) const;
  MovedAlong moved(std::size_t set, collective::CallKind kind, const collective::Volume& volume) const;

  const program::Tables& tables_;
  std::span<const collective::Group> groups_;
  std::vector<std::int16_t> all_;         // axis sets
  std::vector<std::int16_t> of_compute_;  // those that segments may use
  Before at_begin_;
};

}  // namespace tessera::engine
