// LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM and MistralForCausalLM of `transformers`, as versions
// 4 and 5 spell them. Every tensor has the name that the parameter has here.
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/foreign/decoder_config.hpp"

namespace tessera::checkpoint {
namespace {

constexpr Architecture kLlama{"LlamaForCausalLM", "llama"}, kQwen2{"Qwen2ForCausalLM", "qwen2"},
    kQwen3{"Qwen3ForCausalLM", "qwen3"}, kMistral{"MistralForCausalLM", "mistral"};

void read(const ConfigReader& reader, std::string_view type, HfModel& out) {
  spec::Model& model = out.model;
  read_decoder(reader, type == "qwen3" ? 128 : 0, out);
  model.qkv_bias = type == "qwen2";
  model.qk_norm = type == "qwen3";
  if (type == "mistral")
    model.sliding_window = reader.integer(reader.root(), "sliding_window", "model.sliding_window", 0);
  else if (type == "llama")
    refuse_sliding_layers(reader);
  else
    read_windows(reader, model);
  reader.refuse(type != "qwen2" && reader.is_true("attention_bias"), "attention_bias",
                "a bias of o_proj among them, which is not computed here.");
}

void write(const spec::Model& model, nlohmann::ordered_json& config) {
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
  return {.architectures = {kLlama, kQwen2, kQwen3, kMistral},
          .read = read,
          .write = write,
          .derived = {"rotary_emb.inv_freq"}};
}

}  // namespace tessera::checkpoint
