// Dropout whose mask is a function of (seed, unit, place, global sample index, position, channel) and of
// nothing else: not of the layout, the micro-batch, the rank or the order. A sample that comes again in
// another epoch has another global index, so the number of the step is not needed. The mask is made again in
// the backward and never kept.
#pragma once

#include <cstdint>

#include "tessera/parallel/parallel_context.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

class Dropout {
 public:
  enum class Place : std::uint64_t { embedding, attention, mlp };

  // `rate` is rounded to a multiple of 1/65536; `unit` counts the embedding as 0, block i as i + 1.
  Dropout(double rate, std::uint64_t seed, std::int64_t unit, Place place);

  // What is kept is scaled so that the expectation stays. x itself when the rate is 0 or there are no samples
  // (evaluation, generation). Computed on the device of x.
  tensor::Tensor operator()(const tensor::Tensor& x_TH, const Rows& rows) const;

 private:
  std::uint64_t key_ = 0;
  std::int64_t dropped_ = 0;  // of 65536
};

}  // namespace tessera::parallel
