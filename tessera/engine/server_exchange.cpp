#include "tessera/engine/server_exchange.hpp"

namespace tessera::engine {

using tensor::Tensor;

// By member.
std::vector<std::int64_t> ServerExchange::rows(std::int64_t of_worker, std::int64_t of_server) const {
  std::vector<std::int64_t> out(static_cast<std::size_t>(workers_), of_worker);
  out.insert(out.end(), static_cast<std::size_t>(servers_), of_server);
  return out;
}

void ServerExchange::pull(Tensor whole) const {
  group_.all_to_all(whole, whole.narrow(0, 0, 0), rows(0, whole.numel() / servers_), rows(0, 0));
}

void ServerExchange::give(const Tensor& slice) const {
  Tensor nothing = slice.narrow(0, 0, 0);
  const std::vector<Tensor> for_each(static_cast<std::size_t>(workers_), slice);
  group_.all_to_all(nothing, workers_ == 1 ? slice : tensor::concatenate(for_each, 0), rows(0, 0),
                    rows(slice.numel(), 0));
}

void ServerExchange::push(const Tensor& whole) const {
  Tensor nothing = whole.narrow(0, 0, 0);
  group_.all_to_all(nothing, whole, rows(0, 0), rows(0, whole.numel() / servers_));
}

Tensor ServerExchange::take(std::int64_t slice_elements, at::ScalarType dtype, at::Device device) const {
  Tensor all = tensor::empty({workers_ * slice_elements}, dtype, device);
  group_.all_to_all(all, all.narrow(0, 0, 0), rows(slice_elements, 0), rows(0, 0));
  if (workers_ == 1) return all;
  Tensor sum = all.narrow(0, 0, slice_elements).clone();
  for (std::int64_t worker = 1; worker < workers_; ++worker)
    sum.add_(all.narrow(0, worker * slice_elements, slice_elements));
  return sum;
}

}  // namespace tessera::engine
