#include "tessera/collective/autograd_collectives.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/collective/linear_map.hpp"
#include "tessera/collective/rows.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;
using Kind = Placement::Kind;

[[noreturn]] void throw_misplaced(const char* operation, const Placed& x, const Axis& axis,
                                  const char* needed) {
  throw UserError(cat(operation, ": tensor ", x.name, " is ", to_text(x.on(axis.name)), " on axis ",
                      axis.name, ", but must be ", needed));
}

void require(const char* operation, const Placed& x, const Axis& axis, std::initializer_list<Kind> kinds,
             const char* needed) {
  if (std::ranges::find(kinds, x.on(axis.name).kind) == kinds.end())
    throw_misplaced(operation, x, axis, needed);
}

// The dim of S(dim), cut innermost by the axis.
int require_sharded(const char* operation, const Placed& x, const Axis& axis) {
  const int dim = x.on(axis.name).dim;
  if (dim < 0) throw_misplaced(operation, x, axis, "S(dim)");
  check_innermost(x, axis.name, operation);
  return dim;
}

void require_dim(const char* operation, const Placed& x, int dim) {
  if (dim < 0 || dim >= x.tensor.dim())
    throw UserError(cat(operation, ": tensor ", x.name, " of ", x.tensor.dim(), " dims has no dim ", dim));
}

// The cut of a whole dim.
Cut cut_of_whole(const char* operation, const Placed& x, const Axis& axis, int dim, Rows rows) {
  require_dim(operation, x, dim);
  const std::int64_t size = x.tensor.size(dim), num_ranks = axis.group.size();
  if (rows.empty()) {
    if (size % num_ranks != 0)
      throw UserError(cat(operation, ": dim ", dim, " of tensor ", x.name, " has size ", size,
                          ", which axis ", axis.name, " of ", num_ranks,
                          " ranks doesn't divide. Give row counts."));
    rows.assign(static_cast<std::size_t>(num_ranks), size / num_ranks);
  }
  if (static_cast<std::int64_t>(rows.size()) != num_ranks ||
      std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) != size)
    throw UserError(cat(operation, ": the row counts of tensor ", x.name, " on axis ", axis.name,
                        " must be one per rank and sum to ", size, ", the size of dim ", dim));
  return make_cut(std::move(rows), axis.group.rank());
}

// The same where x is this rank's part.
Cut cut_of_part(const char* operation, const Placed& x, const Axis& axis, int dim, Rows rows) {
  require_dim(operation, x, dim);
  const auto num_ranks = static_cast<std::size_t>(axis.group.size());
  const std::int64_t size = x.tensor.size(dim);
  if (rows.empty()) rows.assign(num_ranks, size);
  if (rows.size() != num_ranks || rows[static_cast<std::size_t>(axis.group.rank())] != size)
    throw UserError(cat(operation, ": the row counts of tensor ", x.name, " on axis ", axis.name,
                        " must be one per rank, and this rank's is ", size, ", the size of dim ", dim));
  return make_cut(std::move(rows), axis.group.rank());
}

Tensor identity(const Tensor& x) { return x.view_as(x); }
// `map`, or what leaves its result unwritten: as many rows of dim `dim` as given.
Map unless_unneeded(Result result, int dim, std::int64_t rows, Map map) {
  if (result == Result::needed) return map;
  return [=](const Tensor& t) {
    std::vector<std::int64_t> shape = t.sizes().vec();
    shape[static_cast<std::size_t>(dim)] = rows;
    return t.new_empty(shape);
  };
}
Map sum_over(const Axis& axis) {
  return [=](const Tensor& t) { return all_reduced(t, axis.group); };
}

}  // namespace

Placed gather_replicated(const Placed& x, const Axis& axis, const Rows& rows) {
  const int dim = require_sharded("gather_replicated", x, axis);
  const auto cut = cut_of_part("gather_replicated", x, axis, dim, rows);
  return placed_as(x, axis.name, kReplicated,
                   apply_linear(
                       x.tensor, [=](const Tensor& t) { return gathered(t, axis.group, dim, cut); },
                       [=](const Tensor& g) { return reduce_scattered(g, axis.group, dim, cut); }));
}

Placed gather_invariant(const Placed& x, const Axis& axis, const Rows& rows, Result result) {
  const int dim = require_sharded("gather_invariant", x, axis);
  const auto cut = cut_of_part("gather_invariant", x, axis, dim, rows);
  return placed_as(
      x, axis.name, kInvariant,
      apply_linear(x.tensor,
                   unless_unneeded(result, dim, cut.total,
                                   [=](const Tensor& t) { return gathered(t, axis.group, dim, cut); }),
                   [=](const Tensor& g) { return own_part(g, dim, cut); }));
}

Placed reduce_scatter(const Placed& x, const Axis& axis, int dim, const Rows& rows, Result result) {
  require("reduce_scatter", x, axis, {Kind::partial}, "P");
  const auto cut = cut_of_whole("reduce_scatter", x, axis, dim, rows);
  return placed_as(x, axis.name, sharded(dim),
                   apply_linear(x.tensor,
                                unless_unneeded(result, dim, cut.count,
                                                [=](const Tensor& t) {
                                                  return reduce_scattered(t, axis.group, dim, cut);
                                                }),
                                [=](const Tensor& g) { return gathered(g, axis.group, dim, cut); }));
}

Placed all_reduce_replicated(const Placed& x, const Axis& axis) {
  require("all_reduce_replicated", x, axis, {Kind::partial}, "P");
  return placed_as(x, axis.name, kReplicated, apply_linear(x.tensor, sum_over(axis), sum_over(axis)));
}

Placed all_reduce_invariant(const Placed& x, const Axis& axis, Result result) {
  require("all_reduce_invariant", x, axis, {Kind::partial}, "P");
  return placed_as(
      x, axis.name, kInvariant,
      apply_linear(x.tensor, unless_unneeded(result, 0, x.tensor.size(0), sum_over(axis)), identity));
}

Placed replicate(const Placed& x, const Axis& axis) {
  require("replicate", x, axis, {Kind::invariant}, "I");
  return placed_as(x, axis.name, kReplicated, apply_linear(x.tensor, identity, sum_over(axis)));
}

Placed slice(const Placed& x, const Axis& axis, int dim, const Rows& rows) {
  require("slice", x, axis, {Kind::invariant, Kind::replicated}, "I or R");
  const auto cut = cut_of_whole("slice", x, axis, dim, rows);
  const bool is_invariant = x.on(axis.name) == kInvariant;
  return placed_as(x, axis.name, sharded(dim),
                   apply_linear(
                       x.tensor, [=](const Tensor& t) { return own_part(t, dim, cut); },
                       [=](const Tensor& g) {
                         return is_invariant ? gathered(g, axis.group, dim, cut) : zero_padded(g, dim, cut);
                       }));
}

Placed to_partial(const Placed& x, const Axis& axis, const Rows& rows) {
  const Map only_first = [=](const Tensor& t) { return only_on(t, axis.group, 0); };
  const Placement before = x.on(axis.name);
  if (before == kReplicated)
    return placed_as(x, axis.name, kPartial, apply_linear(x.tensor, only_first, only_first));
  // The gradient of P is equal on all ranks, and that of I must be: all ranks keep it, not the first alone.
  if (before == kInvariant)
    return placed_as(x, axis.name, kPartial, apply_linear(x.tensor, only_first, identity));
  if (before.dim < 0) throw_misplaced("to_partial", x, axis, "R, I or S(dim)");
  const int dim = require_sharded("to_partial", x, axis);
  const auto cut = cut_of_part("to_partial", x, axis, dim, rows);
  return placed_as(x, axis.name, kPartial,
                   apply_linear(
                       x.tensor, [=](const Tensor& t) { return zero_padded(t, dim, cut); },
                       [=](const Tensor& g) { return own_part(g, dim, cut); }));
}

Placed reshard(const Placed& x, const Axis& axis, int to_dim) {
  const int dim = require_sharded("reshard", x, axis);
  cut_of_whole("reshard", x, axis, to_dim, {});
  if (to_dim == dim) return x;
  return placed_as(x, axis.name, sharded(to_dim),
                   apply_linear(
                       x.tensor, [=](const Tensor& t) { return resharded(t, axis.group, dim, to_dim); },
                       [=](const Tensor& g) { return resharded(g, axis.group, to_dim, dim); }));
}

Placed exchange_rows(const Placed& x, const Axis& axis, const Rows& out_rows, const Rows& in_rows) {
  const Placement before = x.on(axis.name);
  if (before != kVarying && before != sharded(0)) throw_misplaced("exchange_rows", x, axis, "V or S(0)");
  const auto num_ranks = static_cast<std::size_t>(axis.group.size());
  if (out_rows.size() != num_ranks || in_rows.size() != num_ranks)
    throw UserError(cat("exchange_rows: tensor ", x.name, " needs ", num_ranks,
                        " counts of rows each way, one per rank of axis ", axis.name));
  cut_of_whole("exchange_rows", x, axis, 0, in_rows);
  return placed_as(
      x, axis.name, kVarying,
      apply_linear(
          x.tensor, [=](const Tensor& t) { return rows_exchanged(t, axis.group, out_rows, in_rows); },
          [=](const Tensor& g) { return rows_exchanged(g, axis.group, in_rows, out_rows); }));
}

Placed shift(const Placed& x, const Axis& axis, int hops) {
  require("shift", x, axis, {Kind::varying}, "V or S(dim)");
  return placed_as(x, axis.name, x.on(axis.name),
                   apply_linear(
                       x.tensor, [=](const Tensor& t) { return shifted(t, axis.group, hops); },
                       [=](const Tensor& g) { return shifted(g, axis.group, -hops); }));
}

Placed broadcast(const Placed& x, const Axis& axis, int root) {
  if (x.on(axis.name) != kVarying) throw_misplaced("broadcast", x, axis, "V");
  const auto forward = [=](const Tensor& t) {
    Tensor copy = t.clone(at::MemoryFormat::Contiguous);
    axis.group.broadcast(copy, root);
    return copy;
  };
  const auto backward = [=](const Tensor& g) { return only_on(sum_over(axis)(g), axis.group, root); };
  return placed_as(x, axis.name, kReplicated, apply_linear(x.tensor, forward, backward));
}

Placed maximum(const Placed& x, const Axis& axis) {
  require("maximum", x, axis, {Kind::varying}, "V or S(dim)");
  Tensor largest = x.tensor.detach().clone(at::MemoryFormat::Contiguous);
  axis.group.all_reduce_max(largest);
  return placed_as(x, axis.name, kInvariant, largest);
}

}  // namespace tessera::collective
