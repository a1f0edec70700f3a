// Norms over the channels of the residual stream, of which each rank of a group has a part.
#pragma once

#include "tessera/collective/group.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

// As tensor::rms_norm and tensor::layer_norm, which they are for a group of one. Weights are the rank's own
// channels'.
tensor::Tensor rms_norm(const tensor::Tensor& x_TH, const tensor::Tensor& weight_H, double epsilon,
                        const collective::Group& channels);
tensor::Tensor layer_norm(const tensor::Tensor& x_TH, const tensor::Tensor& weight_H,
                          const tensor::Tensor& bias_H, double epsilon, const collective::Group& channels);

}  // namespace tessera::parallel
