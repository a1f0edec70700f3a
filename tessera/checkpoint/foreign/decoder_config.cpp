#include "tessera/checkpoint/foreign/decoder_config.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::checkpoint {
namespace {

void read_rope(const ConfigReader& reader, spec::Model& model) {
  const Json& root = reader.root();
  const Json& v5 = reader.at("rope_parameters");
  const Json& rope = v5.is_null() ? reader.at("rope_scaling") : v5;
  const char* name = v5.is_null() ? "rope_scaling" : "rope_parameters";
  model.rope_theta = reader.number(root, "rope_theta", "model.rope_theta", 10000.0);
  if (rope.is_null()) return;
  reader.need(rope.is_object(), cat("says ", name, " = ", ConfigReader::shown(rope), "; it must be a table"));
  model.rope_theta = reader.number(rope, "rope_theta", "model.rope_theta", model.rope_theta);
  const Json& partial = ConfigReader::at(rope, "partial_rotary_factor");
  reader.need(partial.is_null() || partial == Json(1.0),
              cat("says partial_rotary_factor = ", ConfigReader::shown(partial),
                  ", but all channels of a head are turned here"));
  const Json& v4_type = ConfigReader::at(rope, "type");
  const Json& type =
      rope.contains("rope_type") || v4_type.is_null() ? ConfigReader::at(rope, "rope_type") : v4_type;
  if (type.is_null() || type == Json("default")) return;
  reader.need(type == Json("llama3"), cat("says ", name, " of type ", ConfigReader::shown(type),
                                          ", but only default and llama3 are computed here. A model that is "
                                          "trained within its first context needs none: remove that table."));
  model.rope_scaling_factor = reader.number(rope, "factor", "model.rope_scaling_factor");
  if (model.rope_scaling_factor == 1) return;  // changes no angle, whatever the others say
  model.rope_low_frequency_factor = reader.number(rope, "low_freq_factor", "model.rope_low_frequency_factor");
  model.rope_high_frequency_factor =
      reader.number(rope, "high_freq_factor", "model.rope_high_frequency_factor");
  model.rope_original_context =
      reader.integer(rope, "original_max_position_embeddings", "model.rope_original_context");
}

// Positions that the model knows: of its window, of its scaled context, or those that it was trained with.
std::int64_t positions_of(const spec::Model& model) {
  if (model.sliding_window > 0) return model.sliding_window;
  if (model.rope_scaling_factor == 1) return model.sequence;
  const double scaled = model.rope_scaling_factor * static_cast<double>(model.rope_original_context);
  return std::max(model.sequence, static_cast<std::int64_t>(std::min(scaled, 0x1p24)));
}

nlohmann::ordered_json rope_config(const spec::Model& model) {
  nlohmann::ordered_json rope = {{"rope_type", "default"}, {"rope_theta", model.rope_theta}};
  if (model.rope_scaling_factor == 1) return rope;
  rope["rope_type"] = "llama3";
  rope["factor"] = model.rope_scaling_factor;
  rope["low_freq_factor"] = model.rope_low_frequency_factor;
  rope["high_freq_factor"] = model.rope_high_frequency_factor;
  rope["original_max_position_embeddings"] = model.rope_original_context;
  return rope;
}

}  // namespace

void refuse_sliding_layers(const ConfigReader& reader) {
  const Json& types = reader.at("layer_types");
  const bool slides = types.is_array() && std::ranges::any_of(types, [](const Json& type) {
                        return type != Json("full_attention");
                      });
  reader.refuse(slides, "layer_types", "but all layers see all positions here.");
  reader.refuse(
      reader.is_true("use_sliding_window"), "use_sliding_window",
      "but all layers see all positions here: set it to false if sequences stay within the window.");
}

void read_decoder(const ConfigReader& reader, std::int64_t missing_head_dim, HfModel& out) {
  spec::Model& model = out.model;
  const Json& root = reader.root();
  model.layers = reader.integer(root, "num_hidden_layers", "model.layers");
  model.hidden = reader.integer(root, "hidden_size", "model.hidden");
  model.heads = reader.integer(root, "num_attention_heads", "model.heads");
  model.kv_heads = reader.integer(root, "num_key_value_heads", "model.kv_heads", model.heads);
  model.head_dim = reader.integer(root, "head_dim", "model.head_dim", missing_head_dim);
  if (model.head_dim * model.heads == model.hidden) model.head_dim = 0;
  model.ffn = reader.integer(root, "intermediate_size", "model.ffn");
  model.vocab = reader.integer(root, "vocab_size", "model.vocab");
  model.norm_epsilon = reader.number(root, "rms_norm_eps", "model.norm_epsilon", 1e-6);
  model.tied_embeddings = reader.flag("tie_word_embeddings", false);
  out.max_positions = reader.integer(root, "max_position_embeddings", "model.sequence");
  read_rope(reader, model);
  const Json& act = reader.at("hidden_act");
  reader.refuse(!act.is_null() && act != Json("silu"), "hidden_act", "but only silu is computed here.");
  reader.refuse(reader.is_true("mlp_bias"), "mlp_bias", "which is not computed here.");
}

void write_decoder(const spec::Model& model, const Architecture& architecture,
                   nlohmann::ordered_json& config) {
  config = {{"architectures", {architecture.name}},
            {"model_type", architecture.type},
            {"hidden_act", "silu"},
            {"num_hidden_layers", model.layers},
            {"hidden_size", model.hidden},
            {"num_attention_heads", model.heads},
            {"num_key_value_heads", model.kv_heads},
            {"head_dim", model.head_size()},
            {"intermediate_size", model.ffn},
            {"vocab_size", model.vocab},
            {"max_position_embeddings", positions_of(model)},
            {"rms_norm_eps", model.norm_epsilon},
            {"rope_parameters", rope_config(model)}};
  config["rope_theta"] =
      model.rope_theta;  // where transformers 4 reads it; scaling it reads from rope_scaling
  if (model.rope_scaling_factor != 1) config["rope_scaling"] = config["rope_parameters"];
}

}  // namespace tessera::checkpoint
