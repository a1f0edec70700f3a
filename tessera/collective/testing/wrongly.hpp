// The operations of a Group, done wrongly.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/collective/testing/damage.hpp"

namespace tessera::collective {

// `other` is the group of `elsewhere`.
struct Wrongly {
  Group group, other;
  Harm harm;

  void all_reduce(at::Tensor& t, bool is_maximum) const;
  void all_gather(at::Tensor& out, const at::Tensor& in) const;
  void reduce_scatter_sum(at::Tensor& out, const at::Tensor& in) const;
  void all_to_all(at::Tensor& out, const at::Tensor& in, std::span<const std::int64_t> out_rows,
                  std::span<const std::int64_t> in_rows) const;
  void broadcast(at::Tensor& t, int root) const;
  void hand_over(const at::Tensor& t, int to, int tag) const;
};

}  // namespace tessera::collective
