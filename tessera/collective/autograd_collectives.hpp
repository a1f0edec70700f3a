// Collectives with their derivatives, which take a tensor from one placement to another. Each function asks
// for the placements it can take: another one is a UserError with tensor, axis, what was found and what is
// needed. All ranks of the axis call it together.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/collective/placement.hpp"

namespace tessera::collective {

// The ranks' sizes along the dim that is cut; if it is empty, the sizes are equal.
using Rows = std::vector<std::int64_t>;

// What is done with the values that come out. Of an unneeded result only the derivative is used: its values
// are not written, and nothing is called for them.
enum class Result : std::uint8_t { needed, unneeded };

// S(d) -> R: all-gather; backward P -> S(d).
Placed gather_replicated(const Placed& x, const Axis& axis, const Rows& rows = {});
// S(d) -> I: all-gather; backward slice.
Placed gather_invariant(const Placed& x, const Axis& axis, const Rows& rows = {},
                        Result result = Result::needed);
// P -> S(dim): reduce-scatter; backward S(dim) -> R.
Placed reduce_scatter(const Placed& x, const Axis& axis, int dim, const Rows& rows = {},
                      Result result = Result::needed);
// P -> R: all-reduce; backward the same.
Placed all_reduce_replicated(const Placed& x, const Axis& axis);
// P -> I: all-reduce; backward identity.
Placed all_reduce_invariant(const Placed& x, const Axis& axis, Result result = Result::needed);
// I -> R: identity; backward all-reduce.
Placed replicate(const Placed& x, const Axis& axis);
// I, R -> S(dim): slice; backward all-gather (I) or zero-pad (R).
Placed slice(const Placed& x, const Axis& axis, int dim, const Rows& rows = {});
// R, I -> P: zero on all ranks but the first; S(d) -> P: zero-pad. Backward: the same (R), identity (I),
// slice (S).
Placed to_partial(const Placed& x, const Axis& axis, const Rows& rows = {});
// S(d) -> S(to_dim): all-to-all; backward all-to-all. Both dims are cut evenly.
Placed reshard(const Placed& x, const Axis& axis, int to_dim);
// V, S(0) -> V: in_rows[i] rows of dim 0 go to rank i, out_rows[i] come from it; backward the way back.
Placed exchange_rows(const Placed& x, const Axis& axis, const Rows& out_rows, const Rows& in_rows);
// V, S(d) -> the same: rank r's tensor goes to rank r + hops, round the ring; all of one shape. Backward:
// back.
Placed shift(const Placed& x, const Axis& axis, int hops);
// V -> R: everyone gets the root's; backward: sum to the root, zero elsewhere.
Placed broadcast(const Placed& x, const Axis& axis, int root);
// V, S(d) -> I: the elementwise maximum, all of one shape; no derivative.
Placed maximum(const Placed& x, const Axis& axis);

}  // namespace tessera::collective
