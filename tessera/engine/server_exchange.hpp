// What workers and servers exchange along a group of both: see Note [Servers] in program/passes/servers.hpp.
#pragma once

#include "tessera/collective/group.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::engine {

class ServerExchange {
 public:
  // The last members of the group are the servers.
  ServerExchange(const collective::Group& group, std::int64_t servers)
      : group_(group), servers_(servers), workers_(group.size() - servers) {}

  // A worker gets the whole flat of which each server gives a slice.
  void pull(tensor::Tensor whole) const;
  void give(const tensor::Tensor& slice) const;
  // A worker's flat goes to the servers in slices; each gets the sum of its slice of all workers, added in
  // the order of their ranks.
  void push(const tensor::Tensor& whole) const;
  tensor::Tensor take(std::int64_t slice_elements, at::ScalarType dtype, at::Device device) const;

 private:
  std::vector<std::int64_t> rows(std::int64_t of_worker, std::int64_t of_server) const;

  const collective::Group& group_;
  std::int64_t servers_, workers_;
};

}  // namespace tessera::engine
