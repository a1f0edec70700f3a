// Products of rows with the matrices of experts: rows lie expert by expert.
#pragma once

#include <memory>
#include <vector>

#include "tessera/shard/weight.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

// y = x W_e^T for the rows of each expert e, `rows[e]` of them after those of the experts before it. Weights
// are [E, ..., I]; what lies between is the outputs. The weight half goes to `work`.
tensor::Tensor grouped_linear(const tensor::Tensor& x_RI, const std::vector<std::int64_t>& rows,
                              shard::Weight& weight_EOI, shard::WeightWork& work);

}  // namespace tessera::parallel
