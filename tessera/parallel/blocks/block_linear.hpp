// Products of values and weights that are cut in blocks.
#pragma once

#include "tessera/parallel/blocks/grid.hpp"
#include "tessera/shard/weight.hpp"

namespace tessera::parallel {

// y = x W^T. The tape holds this rank's block of x alone: others come again in the backward. Gradients of W
// are summed there too, so that the weight half that is left to do adds what is ready.
tensor::Tensor block_linear(const tensor::Tensor& x_TI, shard::Weight& weight_OI, shard::WeightWork& work,
                            const ProductAxes& axes);

}  // namespace tessera::parallel
