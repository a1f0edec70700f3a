// What Llama and the families after it share: grouped queries with rotary positions, SwiGLU, RMSNorm.
// Parameters carry the names Hugging Face gives them.
#pragma once

#include "tessera/plan/model/family.hpp"
#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// Attention with rotary positions; with a norm of q and k before them.
program::Piece rotary_attention(const Sizes& s, bool has_norm, program::Dtype compute,
                                std::int64_t window = 0);
// x W, of what enters from the stream as it is.
program::Piece entering_product(const char* name, const Sizes& s, std::int64_t out);
// silu(gate) * up.
program::Piece gate(const Sizes& s);
// The pieces after attention, middle -> hidden: norm and up, gate, down.
std::vector<program::Piece> feed_forward_pieces(const spec::Run& run, std::int64_t layer);
// What is computed of keys and values by other ranks too.
double repeated_key_flops(const Sizes& s);

// "model.layers.3." before each.
std::vector<std::string> in_layer(std::int64_t layer, std::vector<std::string> names);
program::Parameter norm_weight(const std::string& name, std::int64_t size);
// q, k, v, out; gate, up, down; all of them.
PlacedParameters attention_matrices(const spec::Model& model, std::int64_t layer);
PlacedParameters feed_forward_matrices(const spec::Model& model, std::int64_t layer);
PlacedParameters decoder_matrices(const spec::Model& model, std::int64_t layer);

// Embedding and head with their parameters and allocation events.
Blueprint decoder_ends(const spec::Run& run);

}  // namespace tessera::plan
