#include "tessera/engine/packed_exchange.hpp"

#include <algorithm>
#include <vector>

namespace tessera::engine {

using tensor::Tensor;

Tensor PackedExchange::sum_of_chunk(const Tensor& whole, std::int64_t chunk) const {
  const std::int64_t n = group_.size();
  std::vector<Tensor> parts;
  for (std::int64_t member = 0; member < n; ++member)
    parts.push_back(packed(whole.narrow(0, member * chunk, chunk), wire_, block_));
  const std::int64_t bytes = parts.front().numel();
  const std::vector<std::int64_t> rows(static_cast<std::size_t>(n), bytes);
  Tensor arrived = tensor::empty({n * bytes}, at::kByte, whole.device());
  group_.all_to_all(arrived, tensor::concatenate(parts, 0), rows, rows);
  Tensor sum = tensor::zeros({chunk}, tensor::wide(whole.scalar_type()), whole.device());
  for (std::int64_t member = 0; member < n; ++member)
    sum.add_(unpacked(arrived.narrow(0, member * bytes, bytes), chunk, sum.scalar_type(), wire_, block_));
  return sum.to(whole.scalar_type());
}

Tensor PackedExchange::reduce_scatter(const Tensor& whole) const {
  return sum_of_chunk(whole, whole.numel() / group_.size());
}

void PackedExchange::all_reduce(Tensor& whole, std::int64_t chunk_elements) const {
  const std::int64_t n = group_.size();
  Tensor filled = tensor::zeros({n * chunk_elements}, whole.scalar_type(), whole.device());
  filled.narrow(0, 0, whole.numel()).copy_(whole);
  const Tensor sum = sum_of_chunk(filled, chunk_elements);
  all_gather(filled, sum);
  whole.copy_(filled.narrow(0, 0, whole.numel()));
}

void PackedExchange::all_gather(Tensor& whole, const Tensor& slice) const {
  const Tensor mine = packed(slice, wire_, block_);
  Tensor all = tensor::empty({group_.size() * mine.numel()}, at::kByte, slice.device());
  group_.all_gather(all, mine);
  for (std::int64_t member = 0; member < group_.size(); ++member)
    whole.narrow(0, member * slice.numel(), slice.numel())
        .copy_(unpacked(all.narrow(0, member * mine.numel(), mine.numel()), slice.numel(),
                        whole.scalar_type(), wire_, block_));
}

}  // namespace tessera::engine
