// The keys of config.json that Llama and those after it share: sizes, rotary positions, RMSNorm, SwiGLU.
#pragma once

#include "tessera/foreign/config_reader.hpp"
#include "tessera/foreign/foreign_family.hpp"

namespace tessera::foreign {

// Sizes, epsilon, tied embeddings, positions and rotary frequencies as transformers 4 and 5 write them:
// plain, or scaled: linear, YaRN, or as Llama 3 has it. Refuses other activations and biases of the
// feed-forward part. `missing_head_dim`: what a head has where the file does not say; 0: hidden / heads.
void read_decoder(const ConfigReader& reader, std::int64_t missing_head_dim, HfModel& out);
// Refuses layers that see a window only.
void refuse_sliding_layers(const ConfigReader& reader);
// Which layers see a window, as Qwen says it.
void read_windows(const ConfigReader& reader, spec::Model& model);
void write_windows(const spec::Model& model, nlohmann::ordered_json& config);

// What YaRN multiplies scores with where mscale_all_dim is given, as DeepSeek has it. Throws UserError when
// no config says the model's.
double scale_of_scores(const ConfigReader& reader);
void write_scale_of_scores(const spec::Model& model, nlohmann::ordered_json& config);

// Tensors of one expert each, of a parameter of ours: after `experts`, by its number, these three names.
struct ExpertNames {
  std::string experts, gate, up, down;
};
// Of model.layers.<i>.mlp.experts.gate_up_proj or down_proj; empty for any other parameter.
std::vector<std::string> expert_tensors(const std::string& name, const std::vector<std::int64_t>& shape,
                                        const ExpertNames& names);

void write_decoder(const spec::Model& model, const Architecture& architecture,
                   nlohmann::ordered_json& config);

}  // namespace tessera::foreign
