// How a tensor is placed on the ranks of an axis, and what that means for its gradient. `dim` belongs to a
// tensor, `axis` to the mesh.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/collective/group.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {

// | placement     | value on the ranks                     | its gradient |
// | R replicated  | equal                                  | P            |
// | I invariant   | equal                                  | I            |
// | V varying     | each its own; S(dim): a part of `dim`  | V, S(dim)    |
// | P partial     | to be summed                           | R            |
struct Placement {
  enum class Kind { replicated, invariant, varying, partial };
  Kind kind = Kind::replicated;
  int dim = -1;  // of S(dim)
  bool operator==(const Placement&) const = default;
};

inline constexpr Placement kReplicated{Placement::Kind::replicated};
inline constexpr Placement kInvariant{Placement::Kind::invariant};
inline constexpr Placement kVarying{Placement::Kind::varying};
inline constexpr Placement kPartial{Placement::Kind::partial};
constexpr Placement sharded(int dim) { return {Placement::Kind::varying, dim}; }

// "R", "I", "V", "S(1)" or "P".
std::string to_text(const Placement& placement);

// One axis of the mesh as this rank sees it.
struct Axis {
  std::string name;
  Group group;
};

// A tensor that knows its placement on each named axis. Of two axes that shard one dim the earlier is the
// outer one: S(0) on dp, then on tp, gives each dp rank one block, cut into tp blocks.
struct Placed {
  at::Tensor tensor;
  std::string name;  // for messages
  std::vector<std::pair<std::string, Placement>> placements;

  // Throws UserError if nothing is known about the axis.
  const Placement& on(const std::string& axis) const;
};

// "x: R on dp, S(0) on tp".
std::string placements_text(const Placed& x);

// x's name with another tensor and another placement on the axis. A newly sharded dim is cut innermost.
Placed placed_as(const Placed& x, const std::string& axis, const Placement& placement, at::Tensor tensor);

// Throws UserError unless `axis` is the innermost of those that shard x's dim: only then neighbours on the
// axis hold neighbouring parts.
void check_innermost(const Placed& x, const std::string& axis, const char* operation);

}  // namespace tessera::collective
