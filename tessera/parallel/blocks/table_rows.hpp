// Rows of a table of which a rank holds a part.
#pragma once

#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

// Tokens of other parts look up, and add zeros to, some row of this one: to find the part's own would stop
// the host.
struct TableRows {
  tensor::Tensor rows_T, is_elsewhere_T1;
};
inline TableRows rows_of_part(const tensor::Tensor& tokens_T, std::int64_t rows_of_each, std::int64_t part) {
  const tensor::Tensor row = tokens_T.sub(rows_of_each * part), rows = row.remainder(rows_of_each);
  return {rows, row.ne(rows).unsqueeze(1)};
}
// Zero for tokens of other parts.
inline tensor::Tensor looked_up(const tensor::Tensor& part_VH, const TableRows& of) {
  return part_VH.index_select(0, of.rows_T).masked_fill_(of.is_elsewhere_T1, 0);
}

}  // namespace tessera::parallel
