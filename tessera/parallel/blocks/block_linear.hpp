// Products of values and weights that are cut in blocks.
#pragma once

#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/parallel/blocks/grid.hpp"
#include "tessera/shard/weight.hpp"

namespace tessera::parallel {

// y = x W^T. The tape holds this rank's block of x alone: others come again in the backward. Gradients of W
// are summed there too, so that the weight half that is left to do adds what is ready. Of an unneeded result
// the blocks do not travel, and its values are not written.
tensor::Tensor block_linear(const tensor::Tensor& x_TI, shard::Weight& weight_OI, shard::WeightWork& work,
                            const ProductAxes& axes, collective::Result result = collective::Result::needed);

}  // namespace tessera::parallel
