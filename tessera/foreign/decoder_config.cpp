#include "tessera/foreign/decoder_config.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::foreign {
namespace {

// What the factor of YaRN adds to the temperature of attention.
double yarn_temperature(double factor, double scale) { return 0.1 * scale * std::log(factor) + 1; }

// As transformers 5 spells it, or 4.
const Json& rope_table(const ConfigReader& reader) {
  const Json& v5 = reader.at("rope_parameters");
  return v5.is_null() ? reader.at("rope_scaling") : v5;
}

void read_yarn(const ConfigReader& reader, const Json& rope, const char* name, spec::Model& model) {
  reader.need(ConfigReader::at(rope, "truncate") != Json(false),
              cat("says ", name, " with truncate = false, which is not computed here"));
  model.rope_scaling = spec::RopeScaling::yarn;
  model.rope_low_frequency_factor = reader.number(rope, "beta_slow", "model.rope_low_frequency_factor", 1.0);
  model.rope_high_frequency_factor =
      reader.number(rope, "beta_fast", "model.rope_high_frequency_factor", 32.0);
  model.rope_original_context =
      ConfigReader::at(rope, "original_max_position_embeddings").is_null()
          ? reader.integer(reader.root(), "max_position_embeddings", "model.rope_original_context")
          : reader.integer(rope, "original_max_position_embeddings", "model.rope_original_context");
  const double factor = model.rope_scaling_factor;
  const double of_all = reader.number(rope, "mscale_all_dim", "model.rope_attention_factor", 0.0),
               scale = reader.number(rope, "mscale", "model.rope_attention_factor", 0.0);
  const double usual = of_all != 0 && scale != 0
                           ? yarn_temperature(factor, scale) / yarn_temperature(factor, of_all)
                           : yarn_temperature(factor, 1);
  model.rope_attention_factor = reader.number(rope, "attention_factor", "model.rope_attention_factor", usual);
}

void read_rope(const ConfigReader& reader, spec::Model& model) {
  const Json& root = reader.root();
  const Json& rope = rope_table(reader);
  const char* name = &rope == &reader.at("rope_parameters") ? "rope_parameters" : "rope_scaling";
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
  const bool is_yarn = type == Json("yarn"), is_linear = type == Json("linear");
  reader.need(
      is_yarn || is_linear || type == Json("llama3"),
      cat("says ", name, " of type ", ConfigReader::shown(type),
          ", but only default, linear, yarn and llama3 are computed here. A model that is trained within its "
          "first context needs none: remove that table."));
  model.rope_scaling_factor = reader.number(rope, "factor", "model.rope_scaling_factor");
  if (model.rope_scaling_factor == 1) return;  // changes no angle, whatever the others say
  if (is_linear) {
    model.rope_scaling = spec::RopeScaling::linear;
    return;
  }
  if (is_yarn) {
    read_yarn(reader, rope, name, model);
    return;
  }
  model.rope_low_frequency_factor = reader.number(rope, "low_freq_factor", "model.rope_low_frequency_factor");
  model.rope_high_frequency_factor =
      reader.number(rope, "high_freq_factor", "model.rope_high_frequency_factor");
  model.rope_original_context =
      reader.integer(rope, "original_max_position_embeddings", "model.rope_original_context");
}

// Positions that the model knows: of its scaled context, of its window, or those that it was trained with.
std::int64_t positions_of(const spec::Model& model) {
  if (model.rope_scaling_factor == 1) return std::max(model.sequence, model.sliding_window);
  if (model.rope_scaling == spec::RopeScaling::linear) return model.sequence;
  const double scaled = model.rope_scaling_factor * static_cast<double>(model.rope_original_context);
  return std::max(model.sequence, static_cast<std::int64_t>(std::min(scaled, 0x1p24)));
}

nlohmann::ordered_json rope_config(const spec::Model& model) {
  nlohmann::ordered_json rope = {{"rope_type", "default"}, {"rope_theta", model.rope_theta}};
  if (model.rope_scaling_factor == 1) return rope;
  rope["rope_type"] = spec::word(model.rope_scaling);
  rope["factor"] = model.rope_scaling_factor;
  if (model.rope_scaling == spec::RopeScaling::linear) return rope;
  if (model.rope_scaling == spec::RopeScaling::yarn) {
    rope["beta_slow"] = model.rope_low_frequency_factor;
    rope["beta_fast"] = model.rope_high_frequency_factor;
    rope["original_max_position_embeddings"] = model.rope_original_context;
    rope["attention_factor"] = model.rope_attention_factor;
    return rope;
  }
  rope["low_freq_factor"] = model.rope_low_frequency_factor;
  rope["high_freq_factor"] = model.rope_high_frequency_factor;
  rope["original_max_position_embeddings"] = model.rope_original_context;
  return rope;
}

bool has_sliding(const Json& layer_types) {
  return layer_types.is_array() &&
         std::ranges::any_of(layer_types, [](const Json& type) { return type != Json("full_attention"); });
}

// What repeats itself in the letters.
std::string shortest_pattern(const std::string& letters) {
  for (std::size_t size = 1; size < letters.size(); ++size) {
    bool repeats = true;
    for (std::size_t i = size; i < letters.size() && repeats; ++i) repeats = letters[i] == letters[i - size];
    if (repeats) return letters.substr(0, size);
  }
  return letters;
}

}  // namespace

void refuse_sliding_layers(const ConfigReader& reader) {
  reader.refuse(has_sliding(reader.at("layer_types")), "layer_types",
                "but all layers of this architecture see all positions here.");
}

void read_windows(const ConfigReader& reader, spec::Model& model) {
  const Json& types = reader.at("layer_types");
  if (!reader.is_true("use_sliding_window")) {
    reader.refuse(has_sliding(types), "layer_types", "but use_sliding_window is not true.");
    return;
  }
  const std::int64_t window = reader.integer(reader.root(), "sliding_window", "model.sliding_window", 0);
  if (window == 0) return;
  std::string letters;
  if (types.is_array()) {
    for (const Json& type : types) {
      const bool slides = type == Json("sliding_attention");
      reader.need(slides || type == Json("full_attention"),
                  cat("says layer_types with ", ConfigReader::shown(type),
                      ", but only full_attention and sliding_attention are computed here"));
      letters += slides ? 'w' : 'f';
    }
    reader.need(std::ssize(letters) == model.layers,
                cat("says layer_types of ", letters.size(), " layers, and has ", model.layers));
  } else {
    const std::int64_t full = reader.integer(reader.root(), "max_window_layers", "model.sliding_window", 28);
    for (std::int64_t layer = 0; layer < model.layers; ++layer) letters += layer < full ? 'f' : 'w';
  }
  if (letters.find('w') == letters.npos) return;
  model.sliding_window = window;
  if (letters.find('f') != letters.npos) model.window_layers = shortest_pattern(letters);
}

void write_windows(const spec::Model& model, nlohmann::ordered_json& config) {
  const std::string letters = model.windows();
  if (letters.empty()) return;
  config["use_sliding_window"] = true;
  config["sliding_window"] = model.sliding_window;
  config["layer_types"] = nlohmann::ordered_json::array();
  for (const char letter : letters)
    config["layer_types"].push_back(letter == 'w' ? "sliding_attention" : "full_attention");
  config["max_window_layers"] = std::min(letters.find('w'), letters.size());
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

double scale_of_scores(const ConfigReader& reader) {
  const Json& rope = rope_table(reader);
  if (!rope.is_object()) return 1;
  const double scale = reader.number(rope, "mscale_all_dim", "model.rope_attention_factor", 0.0),
               factor = reader.number(rope, "factor", "model.rope_scaling_factor", 1.0);
  if (scale == 0 || factor <= 1) return 1;
  const double temperature = yarn_temperature(factor, scale);
  return temperature * temperature;
}

void write_scale_of_scores(const spec::Model& model, nlohmann::ordered_json& config) {
  if (model.attention_scale == 1) return;
  if (model.rope_scaling != spec::RopeScaling::yarn || model.rope_scaling_factor == 1)
    throw UserError(
        "transformers scales scores only with YaRN, so a model with model.attention_scale and without "
        "model.rope_scaling = yarn cannot be exported");
  const double of_all = (std::sqrt(model.attention_scale) - 1) / (0.1 * std::log(model.rope_scaling_factor));
  for (const char* table : {"rope_parameters", "rope_scaling"}) {
    config[table]["mscale"] = of_all;
    config[table]["mscale_all_dim"] = of_all;
  }
}

std::vector<std::string> expert_tensors(const std::string& name, const std::vector<std::int64_t>& shape,
                                        const ExpertNames& names) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  const auto at = name.find(kExperts);
  if (at == std::string::npos) return {};
  const std::string layer = name.substr(0, at), part = name.substr(at + kExperts.size());
  const bool is_down = part == "down_proj";
  if (!is_down && part != "gate_up_proj") return {};
  std::vector<std::string> out;
  const auto add = [&](std::int64_t expert, const std::string& own) {
    out.push_back(cat(layer, ".", names.experts, ".", expert, ".", own, ".weight"));
  };
  for (std::int64_t expert = 0; expert < shape.front(); ++expert) {
    add(expert, is_down ? names.down : names.gate);
    if (!is_down) add(expert, names.up);
  }
  return out;
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

}  // namespace tessera::foreign
