// What products, norms, embedding and loss communicate where values and weights are cut in blocks.
#pragma once

#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// Which way a product leads.
enum class Toward : std::uint8_t { branch, stream };

// Each does nothing unless values are cut in blocks. Calls of the backward are appended: what comes last in
// the forward is added first.
void add_block_product(program::Piece& piece, const Sizes& s, std::int64_t in, std::int64_t out,
                       Toward toward);
void add_block_norm(program::Piece& piece, const Sizes& s, const NormSizes& norm);
void add_block_lookup(program::Piece& piece, const Sizes& s);
// With those that its gradients need at once.
void add_block_loss(program::Piece& piece, const Sizes& s);

// The axis set that cuts the channels of a branch, and how many ranks it has.
struct BranchChannels {
  std::int16_t over = -1;
  std::int64_t ranks = 1;
};
BranchChannels branch_channels(const Sizes& s);

}  // namespace tessera::plan
