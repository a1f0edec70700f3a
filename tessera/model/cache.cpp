#include "tessera/model/cache.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::model {

void Cache::set_lengths(const std::vector<std::int64_t>& lengths, at::Device device) {
  const auto samples = std::ssize(lengths);
  longest_ = std::ranges::max(lengths);
  TESSERA_CHECK(longest_ > 0 && longest_ < capacity_, longest_, " positions of ", capacity_);
  const Tensor mine = tensor::indices(lengths);
  std::vector<std::int64_t> counted(static_cast<std::size_t>(longest_ + 1));
  std::vector<std::int64_t> rows(lengths);
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += static_cast<std::int64_t>(i) * capacity_;
  lengths_B_ = tensor::on_device(mine, device);
  rows_B_ = tensor::on_device(tensor::indices(rows), device);
  const bool equal = std::ranges::min(lengths) == longest_;
  sees_B11C_ = equal ? Tensor()
                     : tensor::on_device(tensor::indices(counted).le(mine.unsqueeze(1)), device)
                           .view({samples, 1, 1, longest_ + 1});
}

void Cache::make(const parallel::Heads& heads, std::size_t layer) {
  TESSERA_CHECK(layer == layers_.size(), "layer ", layer, " after ", layers_.size());
  // Zeros: what a query does not see has the weight 0, and 0 times what memory happens to hold may be no
  // number.
  const auto zeros = [&](const Tensor& t_BKSD) {
    return tensor::zeros({t_BKSD.size(0), capacity_, t_BKSD.size(1), t_BKSD.size(3)}, t_BKSD.scalar_type(),
                         t_BKSD.device());
  };
  layers_.push_back({zeros(heads.k), zeros(heads.v)});
}

Tensor Cache::attend(const parallel::Heads& heads, std::size_t layer) {
  const std::int64_t positions = heads.q.size(2);
  if (!is_filled()) {
    make(heads, layer);
    const auto keep = [&](Tensor& kept_BCKD, const Tensor& t_BKSD) {
      kept_BCKD.narrow(1, 0, positions).copy_(t_BKSD.transpose(1, 2));
    };
    keep(layers_[layer].keys_BCKD, heads.k);
    keep(layers_[layer].values_BCKD, heads.v);
    return tensor::attention(heads.q, heads.k, heads.v, /*causal=*/true);
  }
  TESSERA_CHECK(positions == 1, "a cache is extended by one position at a time, not by ", positions);
  const auto extended = [&](Tensor& kept_BCKD, const Tensor& t_BKSD) {
    kept_BCKD.flatten(0, 1).index_copy_(0, rows_B_, t_BKSD.squeeze(2));
    return kept_BCKD.narrow(1, 0, longest_ + 1).transpose(1, 2);
  };
  const Tensor k = extended(layers_[layer].keys_BCKD, heads.k),
               v = extended(layers_[layer].values_BCKD, heads.v);
  return sees_B11C_.defined() ? tensor::attention(heads.q, k, v, sees_B11C_)
                              : tensor::attention(heads.q, k, v, /*causal=*/false);
}

}  // namespace tessera::model
