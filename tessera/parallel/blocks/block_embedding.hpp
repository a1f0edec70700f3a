// Rows of a table that is cut in blocks: by its rows as a head's outputs are, by its columns as its inputs.
#pragma once

#include "tessera/parallel/blocks/grid.hpp"
#include "tessera/shard/weight.hpp"

namespace tessera::parallel {

// Where the table's rows are cut: along ranks that stand in a group of their own.
struct TableAxes {
  const ProductAxes& head;              // of the product that reads the table as a matrix
  const collective::Group& vocabulary;  // members hold rows of their own
};

// Of tokens that all ranks along head.weights have together, in the order of these ranks; to the stream.
// Tokens travel, the table does not. `tape` is any tensor that requires a gradient.
tensor::Tensor block_embedding(const tensor::Tensor& tokens_T, shard::Weight& weight_VH,
                               const tensor::Tensor& tape, shard::WeightWork& work, const TableAxes& axes);

}  // namespace tessera::parallel
