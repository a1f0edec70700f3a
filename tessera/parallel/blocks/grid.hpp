// How values and weights lie on the ranks of tp where both are cut in blocks (layout.tp_kind = 2d, 2.5d, 3d).
//
// The ranks of tp are rows, columns and layers of a grid: q x q x 1 for 2d, q x q x d for 2.5d, q x q x q
// for 3d. On the residual stream a rank holds some samples, cut over layers and rows, and some channels, cut
// over columns. Inside of a branch 2d and 2.5d have values in the same way; 3d has them with rows and columns
// exchanged.
#pragma once

#include <cstdint>

#include "tessera/collective/placement.hpp"

namespace tessera::parallel {

// One of so many equal parts of a micro-batch's samples.
struct Share {
  std::int64_t part = 0, parts = 1;
};

// Along which ranks the blocks of a product y = x W^T move.
//   square (2d, 2.5d): x is cut in channels along `inputs`, and so is y; W by its inputs along `weights`, by
//     its outputs along `inputs`. y = sum over k of x_k W_k^T, whose blocks come from the k-th rank of each.
//   cube (3d): x is cut in tokens along `inputs`, W by its inputs along `weights`, finer than the channels of
//     x. Both are gathered; what is multiplied is summed up, and cut in tokens, along `sums`.
struct ProductAxes {
  enum class Form : std::uint8_t { whole, square, cube };
  Form form = Form::whole;  // whole: nothing moves
  collective::Group inputs, weights, sums;
  bool gathers = false;  // square: all blocks at once, instead of one after the other
};

struct Grid {
  ProductAxes entering, leaving;  // products that enter a branch from the stream, and those that leave it
  Share stream, branch;           // the samples that a rank has there
  collective::Axis stream_channels{"tp_col", {}}, branch_channels{"tp_col", {}};  // that cut channels there
  bool in_blocks() const { return entering.form != ProductAxes::Form::whole; }
};

}  // namespace tessera::parallel
