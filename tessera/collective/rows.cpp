#include "tessera/collective/rows.hpp"

#include <algorithm>
#include <numeric>

namespace tessera::collective {
namespace {

using at::Tensor;
using Shape = std::vector<std::int64_t>;

Shape with_rows(const Tensor& x, std::int64_t num_rows) {
  Shape shape = x.sizes().vec();
  shape[0] = num_rows;
  return shape;
}

std::int64_t sum(std::span<const std::int64_t> rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

}  // namespace

Cut make_cut(std::vector<std::int64_t> rows, int rank) {
  const auto self = static_cast<std::size_t>(rank);
  const std::span<const std::int64_t> all(rows);
  Cut cut{{}, sum(all.first(self)), all[self], sum(all)};
  cut.rows = std::move(rows);
  return cut;
}

// Uneven parts travel in equal ones of the largest size: one collective, whatever the counts.
Tensor gathered(const Tensor& x, const Group& group, std::int64_t dim, const Cut& cut) {
  const Tensor own = x.movedim(dim, 0).contiguous();
  const std::int64_t most = *std::ranges::max_element(cut.rows);
  const bool is_even = most * group.size() == cut.total;
  Tensor sent = own;
  if (!is_even) {
    sent = own.new_zeros(with_rows(own, most));
    sent.narrow(0, 0, cut.count).copy_(own);
  }
  Tensor all = own.new_empty(with_rows(own, most * group.size()));
  group.all_gather(all, sent);
  if (is_even) return all.movedim(0, dim);
  Tensor whole = own.new_empty(with_rows(own, cut.total));
  std::int64_t first = 0;
  for (std::size_t member = 0; member < cut.rows.size(); ++member) {
    const std::int64_t count = cut.rows[member];
    whole.narrow(0, first, count).copy_(all.narrow(0, most * static_cast<std::int64_t>(member), count));
    first += count;
  }
  return whole.movedim(0, dim);
}

Tensor reduce_scattered(const Tensor& x, const Group& group, std::int64_t dim, const Cut& cut) {
  Tensor whole = x.movedim(dim, 0).contiguous();
  const std::int64_t most = *std::ranges::max_element(cut.rows);
  if (most * group.size() != cut.total) {
    Tensor spread = whole.new_zeros(with_rows(whole, most * group.size()));
    std::int64_t first = 0;
    for (std::size_t member = 0; member < cut.rows.size(); ++member) {
      const std::int64_t count = cut.rows[member];
      spread.narrow(0, most * static_cast<std::int64_t>(member), count).copy_(whole.narrow(0, first, count));
      first += count;
    }
    whole = spread;
  }
  Tensor own = whole.new_empty(with_rows(whole, most));
  group.reduce_scatter_sum(own, whole);
  return own.narrow(0, 0, cut.count).movedim(0, dim);
}

Tensor own_part(const Tensor& x, std::int64_t dim, const Cut& cut) {
  return x.narrow(dim, cut.first, cut.count);
}

Tensor zero_padded(const Tensor& x, std::int64_t dim, const Cut& cut) {
  Shape shape = x.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = cut.total;
  Tensor whole = x.new_zeros(shape);
  whole.narrow(dim, cut.first, cut.count).copy_(x);
  return whole;
}

Tensor all_reduced(const Tensor& x, const Group& group) {
  Tensor sum = x.clone(at::MemoryFormat::Contiguous);
  group.all_reduce_sum(sum);
  return sum;
}

Tensor only_on(const Tensor& x, const Group& group, int position) {
  return group.rank() == position ? x.view_as(x) : x.new_zeros(x.sizes());
}

Tensor resharded(const Tensor& x, const Group& group, std::int64_t from, std::int64_t to) {
  const Tensor in = x.movedim(to, 0).contiguous();
  const std::int64_t num_members = group.size(), num_rows = in.size(0) / num_members;
  const Shape rows(static_cast<std::size_t>(num_members), num_rows);
  Tensor out = in.new_empty(in.sizes());
  group.all_to_all(out, in, rows, rows);
  // Block m is member m's part of `from` and this rank's part of `to`: the blocks go side by side along
  // `from`.
  Shape blocks = in.sizes().vec();
  blocks[0] = num_rows;
  blocks.insert(blocks.begin(), num_members);
  return out.view(blocks).movedim(1, to + 1).movedim(0, from).flatten(from, from + 1);
}

Tensor rows_exchanged(const Tensor& x, const Group& group, std::span<const std::int64_t> out_rows,
                      std::span<const std::int64_t> in_rows) {
  Tensor out = x.new_empty(with_rows(x, sum(out_rows)));
  group.all_to_all(out, x, out_rows, in_rows);
  return out;
}

Tensor shifted(const Tensor& x, const Group& group, int hops) {
  const int size = group.size(), offset = (hops % size + size) % size;
  if (offset == 0) return x.view_as(x);
  // Not send and receive: as one collective it can't mix with messages that are under way.
  Shape in_rows(static_cast<std::size_t>(size)), out_rows(in_rows);
  in_rows[static_cast<std::size_t>((group.rank() + offset) % size)] = x.numel();
  out_rows[static_cast<std::size_t>((group.rank() + size - offset) % size)] = x.numel();
  return rows_exchanged(x.reshape({-1}), group, out_rows, in_rows).view(x.sizes());
}

}  // namespace tessera::collective
