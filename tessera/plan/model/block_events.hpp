// What products, norms, embedding and loss hold where values and weights are cut in blocks: see
// allocation_events.hpp, whose functions hand on to these.
#pragma once

#include "tessera/plan/model/allocation_events.hpp"

namespace tessera::plan {

void forward_block_product(AllocationEvents& events, const Sizes& s, const ProductNames& names,
                           const ProductSizes& sizes);
// `dx`: what the gradient of x is called; empty: d.x.
void backward_block_product(AllocationEvents& events, const Sizes& s, const ProductNames& names,
                            const ProductSizes& sizes, const std::string& dx = "");

void forward_block_norm(AllocationEvents& events, const Sizes& s, bool has_mean, const std::string& x,
                        const std::string& normed);
void backward_block_norm(AllocationEvents& events, const Sizes& s, const std::string& x,
                         const std::string& normed, const std::string& residual);

// Rows of the table, on the stream as `out`.
void forward_block_lookup(AllocationEvents& events, const Sizes& s, const std::string& out);
void backward_block_lookup(AllocationEvents& events, const Sizes& s, const std::string& gradient);

void forward_block_loss(AllocationEvents& events, const Sizes& s);
void backward_block_loss(AllocationEvents& events, const Sizes& s);

}  // namespace tessera::plan
