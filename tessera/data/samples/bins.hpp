// Best-fit decreasing: pieces into bins of one capacity.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/samples/packing.hpp"

namespace tessera::data {

// Pieces of each bin, longest first.
using Bins = std::vector<std::vector<Piece>>;

// Puts each piece, longer ones first, into the fullest bin that still has room for it. No piece is longer
// than a bin.
Bins best_fit(std::vector<Piece> pieces, std::uint64_t capacity);

// The same in exactly `count` bins, whose room must suffice for all tokens together. Where best_fit() would
// need more, the shortest pieces are cut into what room is left; where fewer, pieces move to the empty ones.
// `num_cut` counts the pieces that were cut.
Bins best_fit_into(std::vector<Piece> pieces, std::uint64_t capacity, std::size_t count,
                   std::uint64_t* num_cut = nullptr);

}  // namespace tessera::data
