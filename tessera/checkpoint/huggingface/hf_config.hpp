// Translates between a config.json of `transformers` and our model section. Nothing of the file is run; what
// it asks for that is not computed here is refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/spec/spec.hpp"

namespace tessera::checkpoint {

inline constexpr char kConfigName[] = "config.json";

struct HfModel {
  spec::Model model;  // what the architecture decides; the rest (sequence, dropout, ...) as a run starts from
  std::int64_t max_positions = 0;
  std::string dtype;  // of the weights, as safetensors has it: "BF16"; empty: not said
  bool operator==(const HfModel&) const = default;
};

// LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, MistralForCausalLM, GPT2LMHeadModel, as transformers
// 4 and 5 spell them. Throws UserError naming `path`, the key and what to do.
HfModel hf_model(std::string_view text, const std::string& path);

// The config.json of a model whose weights are of `dtype` ("F32"). Throws UserError when no architecture of
// transformers has all of its properties.
std::string hf_config(const spec::Model& model, const std::string& dtype);

// A config.json as it was, but with this dtype and, for learnt positions, so many of them.
std::string with_dtype(const std::string& config, const std::string& dtype, const spec::Model& model);

}  // namespace tessera::checkpoint
