// Attention of some queries to one block of keys, forward and backward. Blocks of one row of attention are
// merged by their log-sum-exps. Nothing here is seen by autograd.
//
// Shapes as in layers.hpp; Q queries and C keys of the block.
#pragma once

#include "tessera/parallel/layers.hpp"

namespace tessera::parallel {

struct Block {
  Tensor out_BNQD;
  Tensor lse_BNQ;  // in fp32 or fp64; -inf where a query sees no key of the block, and its out is 0
};

// Which keys a query sees: all, those before it and itself (Q = C), or where `added` is 0 and not -inf.
struct Sight {
  bool causal = false;
  Tensor added_B1QC;  // in the dtype of q; undefined: nothing is added. Not with `causal`.
};

Block attend_block(const Heads& heads, const Sight& sight);
// Gradients of q, k and v by this block alone, given d_out, and out and lse of the whole row.
Heads attend_block_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                            const Sight& sight);

// The same in plain products, with all scores at once: what runs where the CPU's kernel doesn't exist (on
// GPUs; compiled and compared here on the CPU, never run there).
Block attend_block_by_products(const Heads& heads, const Sight& sight);
Heads attend_block_by_products_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                                        const Sight& sight);

// Puts a block of the same keys' row into `row`, from query `first` on. `row` is wide and sees a key
// everywhere.
void merge_block(Block& row, const Block& block, std::int64_t first);

}  // namespace tessera::parallel
