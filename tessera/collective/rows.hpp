// The typed collectives on bare tensors: along any dim, evenly or by row counts, without autograd. All
// results are new tensors or views; arguments stay as they are.
#pragma once

#include <span>

#include "tessera/collective/group.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {

// How much of a dim each rank has, and where this rank's part begins.
struct Cut {
  std::vector<std::int64_t> rows;
  std::int64_t first = 0, count = 0, total = 0;
};

Cut make_cut(std::vector<std::int64_t> rows, int rank);

at::Tensor gathered(const at::Tensor& x, const Group& group, std::int64_t dim, const Cut& cut);
at::Tensor reduce_scattered(const at::Tensor& x, const Group& group, std::int64_t dim, const Cut& cut);
at::Tensor own_part(const at::Tensor& x, std::int64_t dim, const Cut& cut);
// Zeros of the whole, with x at this rank's place.
at::Tensor zero_padded(const at::Tensor& x, std::int64_t dim, const Cut& cut);
at::Tensor all_reduced(const at::Tensor& x, const Group& group);
// x on member `position`, zeros elsewhere.
at::Tensor only_on(const at::Tensor& x, const Group& group, int position);
// Cut along `from` before, along `to` after; both evenly.
at::Tensor resharded(const at::Tensor& x, const Group& group, std::int64_t from, std::int64_t to);
at::Tensor rows_exchanged(const at::Tensor& x, const Group& group, std::span<const std::int64_t> out_rows,
                          std::span<const std::int64_t> in_rows);
at::Tensor shifted(const at::Tensor& x, const Group& group, int hops);

}  // namespace tessera::collective
