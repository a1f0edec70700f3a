// What Llama and the families after it share: grouped queries with rotary positions, SwiGLU, RMSNorm.
// Parameters carry the names Hugging Face gives them.
#pragma once

#include "tessera/plan/model/family.hpp"
#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// Attention with rotary positions; with a norm of q and k before them.
program::Piece rotary_attention(const Sizes& s, bool has_norm, std::int64_t window = 0);
// x W, of what enters from the stream as it is.
program::Piece entering_product(const char* name, const Sizes& s, std::int64_t out);
// silu(gate) * up.
program::Piece gate(const Sizes& s);
// The pieces after attention, middle -> hidden: norm and up, gate, down; or those of experts.
std::vector<program::Piece> feed_forward_pieces(const spec::Model& model, const StepShape& shape,
                                                std::int64_t layer);
// What is computed of keys and values by other ranks too.
double repeated_key_flops(const Sizes& s);

// "model.layers.3." before each.
std::vector<std::string> in_layer(std::int64_t layer, std::vector<std::string> names);
program::Parameter norm_weight(const std::string& name, std::int64_t size);
// q, k, v, out.
PlacedParameters attention_matrices(const spec::Model& model, std::int64_t layer);

// What decoders differ in: a block, and its parameters but for those of the feed-forward part.
struct DecoderParts {
  program::Unit (*block)(const Sizes& s, const spec::Model& model, const StepShape& shape,
                         std::int64_t layer);
  PlacedParameters (*attention)(const spec::Model& model, std::int64_t layer);
  PlacedParameters (*vectors)(const spec::Model& model, std::int64_t layer);
};
// With embedding and head, and gate, up and down or experts in each block.
ModelPlan decoder_plan(const spec::Model& model, const StepShape& shape, const DecoderParts& parts);

}  // namespace tessera::plan
