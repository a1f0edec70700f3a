#include "tessera/model/cache.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::model {

void Cache::set_lengths(const std::vector<std::int64_t>& lengths, at::Device device) {
  longest_ = std::ranges::max(lengths);
  TESSERA_CHECK(longest_ > 0 && longest_ < capacity_, longest_, " positions of ", capacity_);
  const Tensor mine = tensor::indices(lengths);
  std::vector<std::int64_t> counted(static_cast<std::size_t>(longest_ + 1));
  std::vector<std::int64_t> rows(lengths);
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += static_cast<std::int64_t>(i) * capacity_;
  lengths_B_ = tensor::on_device(mine, device);
  rows_B_ = tensor::on_device(tensor::indices(rows), device);
  sees_B11C_.clear();
  const bool equal = std::ranges::min(lengths) == longest_;
  after_BC_ = equal ? Tensor() : tensor::on_device(mine.unsqueeze(1).sub(tensor::indices(counted)), device);
}

void Cache::begin(const parallel::Heads& heads, std::size_t layer) {
  TESSERA_CHECK(layer == layers_.size(), "layer ", layer, " after ", layers_.size());
  // Zeros: what a query does not see has the weight 0, and 0 times what memory happens to hold may be no
  // number.
  const auto kept = [&](const Tensor& t_BKSD) {
    Tensor out = tensor::zeros({t_BKSD.size(0), capacity_, t_BKSD.size(1), t_BKSD.size(3)},
                               t_BKSD.scalar_type(), t_BKSD.device());
    out.narrow(1, 0, t_BKSD.size(2)).copy_(t_BKSD.transpose(1, 2));
    return out;
  };
  layers_.push_back({kept(heads.k), kept(heads.v)});
}

Tensor Cache::attend(const parallel::Heads& heads, std::size_t layer, std::int64_t window) {
  TESSERA_CHECK(heads.q.size(2) == 1, "a cache is extended by one position at a time, not by ",
                heads.q.size(2));
  // Samples that are equally long leave out what none of them sees.
  const std::int64_t all = longest_ + 1;
  const std::int64_t first = window > 0 && !after_BC_.defined() ? std::max<std::int64_t>(all - window, 0) : 0;
  const auto extended = [&](Tensor& kept_BCKD, const Tensor& t_BKSD) {
    kept_BCKD.flatten(0, 1).index_copy_(0, rows_B_, t_BKSD.squeeze(2));
    return kept_BCKD.narrow(1, first, all - first).transpose(1, 2);
  };
  const Tensor k = extended(layers_[layer].keys_BCKD, heads.k),
               v = extended(layers_[layer].values_BCKD, heads.v);
  if (!after_BC_.defined()) return tensor::attention(heads.q, k, v, /*causal=*/false);
  return tensor::attention(heads.q, k, v, sees(window));
}

const Tensor& Cache::sees(std::int64_t window) {
  Tensor& out = sees_B11C_[window];
  if (!out.defined()) {
    const Tensor before_BC = after_BC_.ge(0);
    out = (window > 0 ? before_BC.logical_and(after_BC_.lt(window)) : before_BC).unsqueeze(1).unsqueeze(1);
  }
  return out;
}

}  // namespace tessera::model
