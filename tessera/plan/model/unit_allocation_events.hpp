// Fills in the allocation events of a unit's pieces, layer by layer, and their sums.
#pragma once

#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// What families differ in: norms with a mean, turned and normed queries and keys, biases, a gate beside what
// it opens.
struct BlockShape {
  bool has_mean = false, has_rotary = false, has_qk_norm = false, has_bias = false, has_qkv_bias = false,
       is_gated = false;
};

// Of six pieces: norm and q, k, v; attention; out; norm and up; gate or GELU; down.
void add_block_events(program::Unit& unit, const Sizes& s, const BlockShape& shape);
// Of its last three.
void add_feed_forward_events(program::Piece& up, program::Piece& function, program::Piece& down,
                             const Sizes& s, const BlockShape& shape);
// Of its first three.
void add_attention_branch_events(program::Unit& unit, const Sizes& s, const BlockShape& shape);
// The parts of it that blocks of another shape are made of too; `settle` comes last.
void add_attention_events(program::Piece& piece, const Sizes& s, bool has_rotary, bool has_qk_norm);
// sum = residual + dropout(branch W). The product's gradient is the sum's, unless dropout makes another.
void add_residual_events(program::Piece& piece, const Sizes& s, const BlockShape& shape,
                         const std::string& branch, std::int64_t in, const std::string& sum);
// The product of what enters from the stream as it is; its gradient d.x adds up with `residual`, if there is
// one.
void add_entering_events(program::Piece& piece, const Sizes& s, const std::string& x, const std::string& out,
                         std::int64_t width, const std::string& residual);
void add_function_events(program::Piece& piece, const Sizes& s, bool is_gated);
// Gives the pieces of a unit their sums: what each adds to the tape and the weight work of those before it,
// and what it holds for a while by itself.
void settle(program::Unit& unit);
// Of one piece that looks up rows of so many tables.
void add_lookup_events(program::Unit& unit, const Sizes& s, std::int64_t tables);
// Of two pieces: norm of the stream, loss.
void add_head_events(program::Unit& unit, const Sizes& s, bool has_mean, const std::string& stream = "x");

}  // namespace tessera::plan
