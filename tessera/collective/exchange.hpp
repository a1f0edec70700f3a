// How do ranks sum over point-to-point connections? Each gets its share from all others, sums it in the order of ranks and,
// in an all-reduce, gives it to all. So sums are the same bits as those of ranks as threads, for any number of ranks.
#pragma once

namespace at {
class Tensor;
}

namespace tessera::collective {

struct Link;

// Tags that callers of send and receive leave to these sums.
inline constexpr int kExchangeTag = 0x7fff'fff0;

// Of dense tensors on the CPU; `in` and `out` may not overlap.
void reduce_scatter_by_exchange(const Link& link, at::Tensor& out, const at::Tensor& in);
void all_reduce_by_exchange(const Link& link, at::Tensor& t);

}  // namespace tessera::collective
