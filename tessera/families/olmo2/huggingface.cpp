// Olmo2ForCausalLM of `transformers`. Every tensor has the name that the parameter has here.
#include "tessera/foreign/decoder_config.hpp"

namespace tessera::foreign {
namespace {

constexpr Architecture kOlmo2{"Olmo2ForCausalLM", "olmo2"};

void read(const ConfigReader& reader, std::string_view, HfModel& out) {
  read_decoder(reader, 0, out);
  out.model.norm_epsilon = reader.number(reader.root(), "rms_norm_eps", "model.norm_epsilon", 1e-5);
  refuse_sliding_layers(reader);
  reader.refuse(reader.is_true("attention_bias"), "attention_bias", "which is not computed here.");
}

void write(const spec::Model& model, nlohmann::ordered_json& config) { write_decoder(model, kOlmo2, config); }

}  // namespace

ForeignFamily olmo2_files() {
  return {.architectures = {kOlmo2}, .read = read, .write = write, .derived = {"rotary_emb.inv_freq"}};
}

}  // namespace tessera::foreign
