// How do ranks sum and gather over point-to-point connections? For a sum each gets its share from all others, sums it in the order of ranks and,
// in an all-reduce, gives it to all. So sums are the same bits as those of ranks as threads, for any number of ranks.
#pragma once

namespace at {
class Tensor;
}

namespace tessera::collective {

struct Link;

// A tag that callers of send and receive leave to these.
inline constexpr int kExchangeTag = 0x7fff'fff0;

// Of dense tensors on the CPU.
void reduce_scatter_by_exchange(const Link& link, at::Tensor& out, const at::Tensor& in);
void all_reduce_by_exchange(const Link& link, at::Tensor& t);
// `in` may be this member's place in `out`: then nothing is copied.
void all_gather_by_exchange(const Link& link, at::Tensor& out, const at::Tensor& in);

}  // namespace tessera::collective
