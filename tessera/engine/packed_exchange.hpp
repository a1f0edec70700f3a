// Sums and gathers of a bucket whose values travel in fewer bytes.
#pragma once

#include "tessera/collective/group.hpp"
#include "tessera/engine/packed.hpp"

namespace tessera::engine {

// Note [Packed sums]
// Each rank packs what the others are to add up and sends each its part (all-to-all); whoever adds up unpacks
// all parts, its own too, and adds them in the order of the ranks. Where all want the sum, that is packed
// once more and gathered. So values are rounded once on the way to the sum, whatever the number of ranks, and
// once on the way back; and all ranks have the same bits.
class PackedExchange {
 public:
  PackedExchange(const collective::Group& group, program::Wire wire, std::int64_t block)
      : group_(group), wire_(wire), block_(block) {}

  // This rank's equal share of the sum of all `whole`, in dtype of `whole`.
  tensor::Tensor reduce_scatter(const tensor::Tensor& whole) const;
  // In place.
  void all_reduce(tensor::Tensor& whole, std::int64_t chunk_elements) const;
  // Of this rank's slice, the slices of all, in place of `whole`: also its own is what the others get.
  void all_gather(tensor::Tensor& whole, const tensor::Tensor& slice) const;

 private:
  tensor::Tensor sum_of_chunk(const tensor::Tensor& whole, std::int64_t chunk) const;

  const collective::Group& group_;
  program::Wire wire_;
  std::int64_t block_;
};

}  // namespace tessera::engine
