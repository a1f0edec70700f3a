#include "tessera/checkpoint/huggingface/hf_config.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::checkpoint {

namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using spec::Model;

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 32;

struct Architecture {
  std::string_view name, type;
};
constexpr std::array<Architecture, 5> kArchitectures = {{{"LlamaForCausalLM", "llama"},
                                                         {"Qwen2ForCausalLM", "qwen2"},
                                                         {"Qwen3ForCausalLM", "qwen3"},
                                                         {"MistralForCausalLM", "mistral"},
                                                         {"GPT2LMHeadModel", "gpt2"}}};

using Dtype = std::pair<std::string_view, std::string_view>;
constexpr std::array<Dtype, 4> kDtypes = {
    {{"float32", "F32"}, {"float64", "F64"}, {"bfloat16", "BF16"}, {"float16", "F16"}}};

class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : path_(path) {
    need(text.size() <= kMaxBytes,
         cat("has ", text.size(), " bytes; a config of a model has a few thousand"));
    need(json_depth(text) <= kMaxDepth, "is nested deeper than any config of a model");
    root_ = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    need(root_.is_object(), "is not a JSON object");
  }

  void need(bool condition, const std::string& complaint) const {
    if (!condition) throw UserError(cat(path_, " ", complaint));
  }
  // Refuses what is not computed here.
  void refuse(bool asked, const std::string& key, const std::string& hint) const {
    if (asked) need(false, cat("says ", key, " = ", shown(root_.value(key, Json())), ", ", hint));
  }

  const Json& root() const { return root_; }
  // The value, or null where it is missing: transformers makes no difference.
  static const Json& at(const Json& object, const std::string& key) {
    static const Json none;
    const auto found = object.find(key);
    return found == object.end() ? none : *found;
  }
  const Json& at(const std::string& key) const { return at(root_, key); }
  bool is_true(const std::string& key) const { return at(key) == Json(true); }

  // Checked against the range of the run file's key that it becomes.
  std::int64_t integer(const Json& object, const std::string& key, const std::string& ours,
                       std::optional<std::int64_t> missing = {}) const {
    const Json& value = at(object, key);
    if (value.is_null() && missing) return *missing;
    const spec::Key* known = spec::find_key(ours);
    TESSERA_CHECK(known, "no key ", ours);
    need(value.is_number_integer() && spec::fitted(*known, value.get<std::int64_t>()),
         cat("says ", key, " = ", shown(value), "; it must be ", spec::allowed(*known)));
    return value.get<std::int64_t>();
  }
  double number(const Json& object, const std::string& key, const std::string& ours,
                std::optional<double> missing = {}) const {
    const Json& value = at(object, key);
    if (value.is_null() && missing) return *missing;
    const spec::Key* known = spec::find_key(ours);
    TESSERA_CHECK(known, "no key ", ours);
    need(value.is_number() && spec::fitted(*known, value.get<double>()),
         cat("says ", key, " = ", shown(value), "; it must be ", spec::allowed(*known)));
    return value.get<double>();
  }
  bool flag(const std::string& key, bool missing) const {
    const Json& value = at(key);
    if (value.is_null()) return missing;
    need(value.is_boolean(), cat("says ", key, " = ", shown(value), "; it must be true or false"));
    return value.get<bool>();
  }
  // Bounded, whatever the file holds.
  static std::string shown(const Json& value) {
    constexpr std::size_t kMost = 80;
    if (value.is_structured() && value.size() > 8) return value.is_array() ? "a long list" : "a long table";
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kMost) text = text.substr(0, kMost) + "...";
    return text;
  }

 private:
  const std::string& path_;
  Json root_;
};

std::string names() {
  std::vector<std::string> out;
  for (const Architecture& known : kArchitectures) out.emplace_back(known.name);
  return join(out, ", ");
}

// By the first of `architectures`, or by `model_type` where that list is missing.
const Architecture& architecture(const Reader& reader) {
  const Json& list = reader.at("architectures");
  const bool has_list = list.is_array() && !list.empty();
  const Json& given = has_list ? list.front() : reader.at("model_type");
  const std::string word = given.is_string() ? given.get<std::string>() : "";
  const auto found = std::ranges::find(kArchitectures, std::string_view(word),
                                       has_list ? &Architecture::name : &Architecture::type);
  reader.need(found != kArchitectures.end(),
              cat("describes ", has_list ? "the architecture " : "a model_type ", Reader::shown(given),
                  "; it must be one of ", names()));
  reader.refuse(!reader.at("auto_map").is_null(), "auto_map",
                "code of its own, which is not run. If the model is a plain one, remove that key.");
  reader.refuse(!reader.at("quantization_config").is_null(), "quantization_config",
                "but quantised weights are not read: save the model in bfloat16 or float32.");
  return *found;
}

void read_rope(const Reader& reader, Model& model) {
  const Json& root = reader.root();
  const Json& v5 = reader.at("rope_parameters");
  const Json& rope = v5.is_null() ? reader.at("rope_scaling") : v5;
  const char* name = v5.is_null() ? "rope_scaling" : "rope_parameters";
  model.rope_theta = reader.number(root, "rope_theta", "model.rope_theta", 10000.0);
  if (rope.is_null()) return;
  reader.need(rope.is_object(), cat("says ", name, " = ", Reader::shown(rope), "; it must be a table"));
  model.rope_theta = reader.number(rope, "rope_theta", "model.rope_theta", model.rope_theta);
  const Json& partial = Reader::at(rope, "partial_rotary_factor");
  reader.need(partial.is_null() || partial == Json(1.0),
              cat("says partial_rotary_factor = ", Reader::shown(partial),
                  ", but all channels of a head are turned here"));
  const Json& v4_type = Reader::at(rope, "type");
  const Json& type =
      rope.contains("rope_type") || v4_type.is_null() ? Reader::at(rope, "rope_type") : v4_type;
  if (type.is_null() || type == Json("default")) return;
  reader.need(type == Json("llama3"), cat("says ", name, " of type ", Reader::shown(type),
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

// Qwen can let some layers see a window only.
void refuse_sliding_layers(const Reader& reader) {
  const Json& types = reader.at("layer_types");
  const bool slides = types.is_array() && std::ranges::any_of(types, [](const Json& type) {
                        return type != Json("full_attention");
                      });
  reader.refuse(slides, "layer_types", "but all layers see all positions here.");
  reader.refuse(
      reader.is_true("use_sliding_window"), "use_sliding_window",
      "but all layers see all positions here: set it to false if sequences stay within the window.");
}

void read_llama(const Reader& reader, std::string_view type, HfModel& out) {
  Model& model = out.model;
  const Json& root = reader.root();
  model.layers = reader.integer(root, "num_hidden_layers", "model.layers");
  model.hidden = reader.integer(root, "hidden_size", "model.hidden");
  model.heads = reader.integer(root, "num_attention_heads", "model.heads");
  model.kv_heads = reader.integer(root, "num_key_value_heads", "model.kv_heads", model.heads);
  model.head_dim = reader.integer(root, "head_dim", "model.head_dim", type == "qwen3" ? 128 : 0);
  if (model.head_dim * model.heads == model.hidden) model.head_dim = 0;
  model.ffn = reader.integer(root, "intermediate_size", "model.ffn");
  model.vocab = reader.integer(root, "vocab_size", "model.vocab");
  model.norm_epsilon = reader.number(root, "rms_norm_eps", "model.norm_epsilon", 1e-6);
  model.tied_embeddings = reader.flag("tie_word_embeddings", false);
  model.qkv_bias = type == "qwen2";
  model.qk_norm = type == "qwen3";
  out.max_positions = reader.integer(root, "max_position_embeddings", "model.sequence");
  read_rope(reader, model);
  if (type == "mistral")
    model.sliding_window = reader.integer(root, "sliding_window", "model.sliding_window", 0);
  else
    refuse_sliding_layers(reader);
  const Json& act = reader.at("hidden_act");
  reader.refuse(!act.is_null() && act != Json("silu"), "hidden_act", "but only silu is computed here.");
  reader.refuse(type != "qwen2" && reader.is_true("attention_bias"), "attention_bias",
                "a bias of o_proj among them, which is not computed here.");
  reader.refuse(reader.is_true("mlp_bias"), "mlp_bias", "which is not computed here.");
}

void read_gpt2(const Reader& reader, HfModel& out) {
  Model& model = out.model;
  const Json& root = reader.root();
  model.layers = reader.integer(root, "n_layer", "model.layers");
  model.hidden = reader.integer(root, "n_embd", "model.hidden");
  model.heads = model.kv_heads = reader.integer(root, "n_head", "model.heads");
  model.ffn = reader.integer(root, "n_inner", "model.ffn", 4 * model.hidden);
  model.vocab = reader.integer(root, "vocab_size", "model.vocab");
  model.norm_epsilon = reader.number(root, "layer_norm_epsilon", "model.norm_epsilon", 1e-5);
  model.tied_embeddings = reader.flag("tie_word_embeddings", true);
  out.max_positions = reader.integer(root, "n_positions", "model.sequence");
  const Json& act = reader.at("activation_function");
  reader.refuse(!act.is_null() && act != Json("gelu_new") && act != Json("gelu_pytorch_tanh"),
                "activation_function", "but only gelu_new is computed here.");
  reader.refuse(!reader.flag("scale_attn_weights", true), "scale_attn_weights",
                "but scores are always divided by the root of a head's channels here.");
  reader.refuse(reader.is_true("scale_attn_by_inverse_layer_idx"), "scale_attn_by_inverse_layer_idx",
                "which is not computed here.");
  reader.refuse(reader.is_true("add_cross_attention"), "add_cross_attention", "which is not computed here.");
}

std::string dtype_word(const Json& value) {
  if (!value.is_string()) return "";
  auto word = value.get<std::string>();
  if (word.starts_with("torch.")) word = word.substr(6);
  const auto found = std::ranges::find(kDtypes, std::string_view(word), &Dtype::first);
  return found == kDtypes.end() ? "" : std::string(found->second);
}

std::string torch_word(const std::string& dtype) {
  const auto found = std::ranges::find(kDtypes, std::string_view(dtype), &Dtype::second);
  TESSERA_CHECK(found != kDtypes.end(), "no weights of dtype ", dtype);
  return std::string(found->first);
}

OrderedJson gpt2_config(const Model& model) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"n_layer", model.layers},
          {"n_embd", model.hidden},
          {"n_head", model.heads},
          {"n_inner", model.ffn},
          {"n_positions", model.sequence},
          {"vocab_size", model.vocab},
          {"layer_norm_epsilon", model.norm_epsilon},
          {"embd_pdrop", model.dropout},
          {"resid_pdrop", model.dropout},
          {"attn_pdrop", 0.0}};
}

// Positions that the model knows: of its window, of its scaled context, or those that it was trained with.
std::int64_t positions_of(const Model& model) {
  if (model.sliding_window > 0) return model.sliding_window;
  if (model.rope_scaling_factor == 1) return model.sequence;
  const double scaled = model.rope_scaling_factor * static_cast<double>(model.rope_original_context);
  return std::max(model.sequence, static_cast<std::int64_t>(std::min(scaled, 0x1p24)));
}

OrderedJson rope_config(const Model& model) {
  OrderedJson rope = {{"rope_type", "default"}, {"rope_theta", model.rope_theta}};
  if (model.rope_scaling_factor == 1) return rope;
  rope["rope_type"] = "llama3";
  rope["factor"] = model.rope_scaling_factor;
  rope["low_freq_factor"] = model.rope_low_frequency_factor;
  rope["high_freq_factor"] = model.rope_high_frequency_factor;
  rope["original_max_position_embeddings"] = model.rope_original_context;
  return rope;
}

OrderedJson llama_config(const Model& model) {
  const int kinds = int(model.qkv_bias) + int(model.qk_norm) + int(model.sliding_window > 0);
  if (kinds > 1)
    throw UserError(
        "no architecture of transformers has two of model.qkv_bias (Qwen 2), model.qk_norm (Qwen 3) "
        "and model.sliding_window (Mistral), so the model cannot be exported");
  const Architecture& is = kArchitectures[model.qkv_bias             ? 1
                                          : model.qk_norm            ? 2
                                          : model.sliding_window > 0 ? 3
                                                                     : 0];
  OrderedJson out = {{"architectures", {is.name}},
                     {"model_type", is.type},
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
  out["rope_theta"] = model.rope_theta;  // where transformers 4 reads it; scaling it reads from rope_scaling
  if (model.rope_scaling_factor != 1) out["rope_scaling"] = out["rope_parameters"];
  if (model.sliding_window > 0) out["sliding_window"] = model.sliding_window;
  return out;
}

}  // namespace

HfModel hf_model(std::string_view text, const std::string& path) {
  const Reader reader(text, path);
  const Architecture& is = architecture(reader);
  HfModel out;
  out.model.family = is.type == "gpt2" ? spec::Family::gpt2 : spec::Family::llama;
  if (is.type == "gpt2")
    read_gpt2(reader, out);
  else
    read_llama(reader, is.type, out);
  const Model& model = out.model;
  reader.need(model.heads % model.kv_heads == 0 && (model.head_dim > 0 || model.hidden % model.heads == 0),
              cat("has heads that do not fit: hidden ", model.hidden, ", heads ", model.heads,
                  ", key and value heads ", model.kv_heads));
  const Json& dtype = reader.at("dtype");
  out.dtype = dtype_word(dtype.is_null() ? reader.at("torch_dtype") : dtype);
  return out;
}

std::string hf_config(const Model& model, const std::string& dtype) {
  OrderedJson out = model.family == spec::Family::gpt2 ? gpt2_config(model) : llama_config(model);
  out["initializer_range"] = model.init_std;
  out["tie_word_embeddings"] = model.tied_embeddings;
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) out[token] = nullptr;
  out["dtype"] = torch_word(dtype);
  return out.dump(2) + "\n";
}

std::string with_dtype(const std::string& config, const std::string& dtype, const Model& model) {
  const HfModel before = hf_model(config, kConfigName);
  const bool is_gpt2 = model.family == spec::Family::gpt2;
  if (before.dtype == dtype && (!is_gpt2 || before.max_positions == model.sequence)) return config;
  OrderedJson out = OrderedJson::parse(config);
  if (!out.contains("torch_dtype")) out["dtype"] = nullptr;
  for (const char* key : {"dtype", "torch_dtype"})
    if (out.contains(key)) out[key] = torch_word(dtype);
  if (is_gpt2) out["n_positions"] = model.sequence;
  if (is_gpt2 && out.contains("n_ctx")) out["n_ctx"] = model.sequence;
  return out.dump(2) + "\n";
}

}  // namespace tessera::checkpoint
