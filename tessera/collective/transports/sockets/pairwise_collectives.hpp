// Collectives made of sends and receives. For a sum each member gets its share from all others, adds in the
// order of ranks and, in an all-reduce, gives the result to all: the same bits as those of ranks as threads,
// for any number of ranks.
#pragma once

#include <cstdint>
#include <span>

namespace at {
class Tensor;
}
namespace c10d {
class Backend;
}

namespace tessera::collective {

// A tag that callers of send and receive leave to these.
inline constexpr int kPairwiseTag = 0x7fff'fff0;

enum class Combine { sum, maximum };

// Of dense tensors on the CPU.
void reduce_scatter_by_pairs(c10d::Backend& backend, at::Tensor& out, const at::Tensor& in, Combine how);
void all_reduce_by_pairs(c10d::Backend& backend, at::Tensor& t, Combine how);
// `in` may be this member's place in `out`: then nothing is copied.
void all_gather_by_pairs(c10d::Backend& backend, at::Tensor& out, const at::Tensor& in);
// in_rows[i] rows of `in` go to member i, out_rows[i] rows of `out` come from it.
void all_to_all_by_pairs(c10d::Backend& backend, at::Tensor& out, const at::Tensor& in,
                         std::span<const std::int64_t> out_rows, std::span<const std::int64_t> in_rows);
void broadcast_by_pairs(c10d::Backend& backend, at::Tensor& t, int root);

}  // namespace tessera::collective
