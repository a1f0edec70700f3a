// LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, MistralForCausalLM, MixtralForCausalLM and
// Qwen3MoeForCausalLM of `transformers`, as versions 4 and 5 spell them. Every tensor has the same name here
// and there, except for experts, which are stacked here:
//
//   ours                    Qwen 3 MoE                             Mixtral
//   model.layers.<i>.mlp    model.layers.<i>.mlp                   model.layers.<i>.block_sparse_moe
//   gate.weight             gate.weight                            gate.weight
//   experts.gate_up_proj    experts.<e>.{gate,up}_proj.weight      experts.<e>.{w1,w3}.weight
//   experts.down_proj       experts.<e>.down_proj.weight           experts.<e>.w2.weight
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/foreign/decoder_config.hpp"

namespace tessera::foreign {
namespace {

constexpr Architecture kLlama{"LlamaForCausalLM", "llama"}, kQwen2{"Qwen2ForCausalLM", "qwen2"},
    kQwen3{"Qwen3ForCausalLM", "qwen3"}, kMistral{"MistralForCausalLM", "mistral"},
    kMixtral{"MixtralForCausalLM", "mixtral"}, kQwen3Moe{"Qwen3MoeForCausalLM", "qwen3_moe"};

std::vector<ForeignStack> stacks(const std::string& name, const std::vector<std::int64_t>& shape) {
  constexpr std::string_view kRouter = ".mlp.gate.weight";
  if (name.ends_with(kRouter))
    return {
        {kMixtral.type, {name.substr(0, name.size() - kRouter.size()) + ".block_sparse_moe.gate.weight"}}};
  auto qwen = expert_tensors(name, shape, {"mlp.experts", "gate_proj", "up_proj", "down_proj"});
  if (qwen.empty()) return {};
  return {{kQwen3Moe.type, std::move(qwen)},
          {kMixtral.type, expert_tensors(name, shape, {"block_sparse_moe.experts", "w1", "w3", "w2"})}};
}

void read_experts(const ConfigReader& reader, std::string_view type, spec::Model& model) {
  const Json& root = reader.root();
  model.experts_per_token = reader.integer(root, "num_experts_per_tok", "model.experts_per_token");
  if (type == kMixtral.type) {
    model.experts = reader.integer(root, "num_local_experts", "model.experts");
    reader.refuse(reader.number(root, "router_jitter_noise", "model.router_z_weight", 0.0) > 0,
                  "router_jitter_noise", "which is not computed here.");
    return;
  }
  const char* count = reader.at("num_local_experts").is_null() ? "num_experts" : "num_local_experts";
  model.experts = reader.integer(root, count, "model.experts");
  model.expert_ffn = reader.integer(root, "moe_intermediate_size", "model.expert_ffn");
  model.router_normalizes = reader.flag("norm_topk_prob", false);
  reader.refuse(reader.integer(root, "decoder_sparse_step", "model.experts", 1) != 1, "decoder_sparse_step",
                "but here every layer after the first dense ones has experts.");
  const Json& dense = reader.at("mlp_only_layers");
  reader.refuse(!dense.is_null() && !dense.empty(), "mlp_only_layers",
                "but here every layer after the first dense ones has experts.");
}

void write_experts(const spec::Model& model, nlohmann::ordered_json& config) {
  const spec::Model plain;
  if (model.qkv_bias || model.dense_layers > 0 || model.shared_experts > 0 ||
      model.balance == spec::Balance::bias || model.router_scores != plain.router_scores ||
      model.router_groups > 1 || model.router_scale != 1 || (!model.qk_norm && !model.router_normalizes))
    throw UserError(
        "no architecture of transformers has this router with this attention: Mixtral and Qwen 3 MoE have "
        "model.router_scores = softmax, no groups, no scale, no bias and no dense layers, and Mixtral "
        "model.router_normalizes = true. The model cannot be exported");
  write_decoder(model, model.qk_norm ? kQwen3Moe : kMixtral, config);
  config["num_local_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  if (model.qk_norm) {
    config["moe_intermediate_size"] = model.expert_width();
    config["norm_topk_prob"] = model.router_normalizes;
    config["decoder_sparse_step"] = 1;
    config["mlp_only_layers"] = nlohmann::ordered_json::array();
    write_windows(model, config);
  } else {
    config["intermediate_size"] = model.expert_width();
    if (model.sliding_window > 0) config["sliding_window"] = model.sliding_window;
  }
}

void read(const ConfigReader& reader, std::string_view type, HfModel& out) {
  spec::Model& model = out.model;
  read_decoder(reader, type == "qwen3" ? 128 : 0, out);
  model.qkv_bias = type == "qwen2";
  model.qk_norm = type == "qwen3" || type == kQwen3Moe.type;
  if (type == kMixtral.type || type == kQwen3Moe.type) read_experts(reader, type, model);
  if (type == "mistral" || type == kMixtral.type)
    model.sliding_window = reader.integer(reader.root(), "sliding_window", "model.sliding_window", 0);
  else if (type == "llama")
    refuse_sliding_layers(reader);
  else
    read_windows(reader, model);
  reader.refuse(type != "qwen2" && reader.is_true("attention_bias"), "attention_bias",
                "a bias of o_proj among them, which is not computed here.");
}

void write(const spec::Model& model, nlohmann::ordered_json& config) {
  if (model.experts > 0) return write_experts(model, config);
  if (model.qkv_bias && model.qk_norm)
    throw UserError(
        "no architecture of transformers has both model.qkv_bias (Qwen 2) and model.qk_norm (Qwen 3), so the "
        "model cannot be exported");
  const bool is_qwen = model.qkv_bias || model.qk_norm, is_mistral = !is_qwen && model.sliding_window > 0;
  if (is_mistral && model.windows().find('f') != std::string::npos)
    throw UserError(
        "all layers of a Mistral have the window, and no other architecture of transformers without "
        "model.qkv_bias or model.qk_norm has one, so a model with model.window_layers cannot be exported");
  write_decoder(model,
                model.qkv_bias  ? kQwen2
                : model.qk_norm ? kQwen3
                : is_mistral    ? kMistral
                                : kLlama,
                config);
  if (is_mistral)
    config["sliding_window"] = model.sliding_window;
  else
    write_windows(model, config);
}

}  // namespace

ForeignFamily llama_files() {
  return {.architectures = {kLlama, kQwen2, kQwen3, kMistral, kMixtral, kQwen3Moe},
          .read = read,
          .write = write,
          .stacks = stacks,
          .derived = {"rotary_emb.inv_freq"}};
}

}  // namespace tessera::foreign
