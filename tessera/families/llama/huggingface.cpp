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
  else
    refuse_sliding_layers(reader);
  reader.refuse(type != "qwen2" && reader.is_true("attention_bias"), "attention_bias",
                "a bias of o_proj among them, which is not computed here.");
}

void write(const spec::Model& model, nlohmann::ordered_json& config) {
  const int kinds = int(model.qkv_bias) + int(model.qk_norm) + int(model.sliding_window > 0);
  if (kinds > 1)
    throw UserError(
        "no architecture of transformers has two of model.qkv_bias (Qwen 2), model.qk_norm (Qwen 3) "
        "and model.sliding_window (Mistral), so the model cannot be exported");
  write_decoder(model,
                model.qkv_bias             ? kQwen2
                : model.qk_norm            ? kQwen3
                : model.sliding_window > 0 ? kMistral
                                           : kLlama,
                config);
  if (model.sliding_window > 0) config["sliding_window"] = model.sliding_window;
}

}  // namespace

ForeignFamily llama_files() {
  return {.architectures = {kLlama, kQwen2, kQwen3, kMistral},
          .read = read,
          .write = write,
          .derived = {"rotary_emb.inv_freq"}};
}

}  // namespace tessera::checkpoint
