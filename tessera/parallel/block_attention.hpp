// Attention of some queries to one block of keys, forward and backward. Blocks of one row of attention are
// merged by their log-sum-exps. Nothing here is seen by autograd.
//
// Shapes as in layers.hpp; Q queries and C keys of the block.
#pragma once

#include "tessera/parallel/layers.hpp"

namespace tessera::parallel {

struct Block {
  Tensor out_BNQD;
  Tensor lse_BNQ;  // in fp32 or fp64
};

// A query sees all keys or, if causal, those before it and itself (Q = C).
Block attend_block(const Heads& heads, bool causal);
// Gradients of q, k and v by this block alone, given d_out, and out and lse of the whole row.
Heads attend_block_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row, bool causal);

// The same in plain products, with all scores at once: what runs where there is no kernel for it, on
// accelerators in fp32 and fp64.
Block attend_block_by_products(const Heads& heads, bool causal);
Heads attend_block_by_products_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                                        bool causal);

// Puts another block of the same queries into `row`, which is wide.
void merge_block(const Block& row, const Block& block);

}  // namespace tessera::parallel
