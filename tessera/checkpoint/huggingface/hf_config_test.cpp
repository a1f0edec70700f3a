#include "tessera/checkpoint/huggingface/hf_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"

namespace tessera::checkpoint {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

// Llama 3.1 8B, as transformers 4 published it.
Json llama3() {
  return Json::parse(
      R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
    "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 128256})");
}

// The smallest GPT-2, as it was published.
Json gpt2() {
  return Json::parse(
      R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024, "resid_pdrop": 0.1, "task_specific_params": {"text-generation": {"do_sample": true}},
    "vocab_size": 50257})");
}

foreign::HfModel read(const Json& config) { return hf_model(config.dump(), "folder/config.json"); }

std::string complaint(const Json& config) {
  try {
    read(config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(HfConfig, OfLlama3IsReadInBothSpellings) {
  const foreign::HfModel found = read(llama3());
  spec::Model expected{
      .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 128256};
  expected.rope_theta = 5e5;
  expected.rope_scaling_factor = 8;
  EXPECT_EQ(found.model, expected);
  EXPECT_EQ(found.max_positions, 131072);
  EXPECT_EQ(found.dtype, "BF16");

  Json newer = llama3();
  newer["rope_parameters"] = newer["rope_scaling"];
  newer["rope_parameters"]["rope_theta"] = newer["rope_theta"];
  newer["dtype"] = newer["torch_dtype"];
  newer["head_dim"] = 128;
  for (const char* key : {"rope_scaling", "rope_theta", "torch_dtype"}) newer.erase(key);
  EXPECT_EQ(read(newer), found);
}

TEST(HfConfig, OfGpt2IsReadAndTiedByDefault) {
  const foreign::HfModel found = read(gpt2());
  spec::Model expected{
      .family = spec::Family::gpt2, .layers = 12, .hidden = 768, .heads = 12, .kv_heads = 12};
  expected.ffn = 3072;
  expected.vocab = 50257;
  expected.tied_embeddings = true;
  EXPECT_EQ(found.model, expected);
  EXPECT_EQ(found.max_positions, 1024);
  EXPECT_EQ(found.dtype, "");
}

TEST(HfConfig, OfQwenAndMistralSaysWhatTheyHaveThatLlamaHasNot) {
  Json config = llama3();
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["sliding_window"] = 32768;  // unused, as published
  config["use_sliding_window"] = false;
  EXPECT_TRUE(read(config).model.qkv_bias);
  EXPECT_EQ(read(config).model.sliding_window, 0);
  config["architectures"] = {"Qwen3ForCausalLM"};
  config["hidden_size"] = 1024;
  EXPECT_TRUE(read(config).model.qk_norm);
  EXPECT_EQ(read(config).model.head_dim, 128) << "its default";
  config["architectures"] = {"MistralForCausalLM"};
  EXPECT_EQ(read(config).model.sliding_window, 32768);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(read(config).model.sliding_window, 0);
  config.erase("architectures");
  config["model_type"] = "qwen2";
  EXPECT_TRUE(read(config).model.qkv_bias) << "by its type";
}

TEST(HfConfig, OfQwenSaysWhichLayersHaveAWindow) {
  Json config = llama3();
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["num_hidden_layers"] = 6;
  config["sliding_window"] = 512;
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 2;
  EXPECT_EQ(read(config).model.windows(), "ffwwww");
  config["max_window_layers"] = 6;
  EXPECT_EQ(read(config).model.windows(), "") << "none has it";
  config["layer_types"] = {"sliding_attention", "sliding_attention", "full_attention",
                           "sliding_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(read(config).model.window_layers, "wwf");
  EXPECT_EQ(read(config).model.sliding_window, 512);
  config["layer_types"][0] = "chunked_attention";
  EXPECT_THAT(complaint(config), HasSubstr("chunked_attention"));
  config["layer_types"] = {"sliding_attention"};
  EXPECT_THAT(complaint(config), HasSubstr("of 1 layers, and has 6"));
  config["use_sliding_window"] = false;
  EXPECT_THAT(complaint(config), HasSubstr("use_sliding_window is not true"));
}

TEST(HfConfig, OfScaledFrequenciesSaysWhichAreDivided) {
  Json config = llama3();
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(read(config).model.rope_scaling, spec::RopeScaling::linear);
  EXPECT_EQ(read(config).model.rope_scaling_factor, 4);
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4096}};
  const spec::Model yarn = read(config).model;
  EXPECT_EQ(yarn.rope_scaling, spec::RopeScaling::yarn);
  EXPECT_EQ(yarn.rope_low_frequency_factor, 1);
  EXPECT_EQ(yarn.rope_high_frequency_factor, 32);
  EXPECT_EQ(yarn.rope_original_context, 4096);
  EXPECT_NEAR(yarn.rope_attention_factor, 0.1 * std::log(4) + 1, 1e-12);
  config["rope_scaling"]["mscale"] = 1.0;
  config["rope_scaling"]["mscale_all_dim"] = 0.5;
  EXPECT_NEAR(read(config).model.rope_attention_factor, (0.1 * std::log(4) + 1) / (0.05 * std::log(4) + 1),
              1e-12);
  config["rope_scaling"]["attention_factor"] = 1.25;
  EXPECT_EQ(read(config).model.rope_attention_factor, 1.25);
}

TEST(HfConfig, WhatIsNotComputedHereIsRefusedByName) {
  struct Case {
    const char *key, *value, *says;
  };
  const Case cases[] = {
      {"architectures", R"(["GemmaForCausalLM"])",
       "the architecture \"GemmaForCausalLM\"; it must be one of Llama"},
      {"auto_map", R"({"AutoModel": "x.Y"})", "code of its own, which is not run"},
      {"quantization_config", R"({"bits": 4})", "save the model in bfloat16"},
      {"hidden_act", R"("gelu")", "says hidden_act = \"gelu\", but only silu"},
      {"attention_bias", "true", "a bias of o_proj"},
      {"mlp_bias", "true", "mlp_bias = true"},
      {"layer_types", R"(["full_attention", "sliding_attention"])", "see all positions"},
      {"rope_scaling", R"({"type": "longrope", "factor": 4})",
       "of type \"longrope\", but only default, linear, yarn and llama3"},
      {"rope_scaling", R"({"type": "yarn", "factor": 4, "truncate": false})", "truncate = false"},
      {"rope_scaling", R"({"rope_type": "llama3", "factor": 0.5})",
       "factor = 0.5; it must be a number, at least 1"},
      {"rope_scaling", R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor = 0.5"},
      {"rope_scaling", "3", "it must be a table"},
      {"hidden_size", "-1", "hidden_size = -1; it must be an integer from 1"},
      {"hidden_size", "4096.5", "hidden_size = 4096.5"},
      {"hidden_size", "18446744073709551615", "it must be an integer from 1"},
      {"num_hidden_layers", "null", "num_hidden_layers = null"},
      {"num_attention_heads", "12", "heads that do not fit"},
      {"rms_norm_eps", R"("x")", "rms_norm_eps = \"x\"; it must be a number"},
      {"tie_word_embeddings", "1", "it must be true or false"}};
  for (const Case& c : cases) {
    Json config = llama3();
    config[c.key] = Json::parse(c.value);
    EXPECT_THAT(complaint(config), HasSubstr(c.says)) << c.key;
    EXPECT_THAT(complaint(config), HasSubstr("folder/config.json")) << c.key;
  }
  const Case of_gpt2[] = {{"activation_function", R"("gelu")", "only gelu_new"},
                          {"scale_attn_weights", "false", "scale_attn_weights = false"},
                          {"scale_attn_by_inverse_layer_idx", "true", "not computed here"},
                          {"add_cross_attention", "true", "not computed here"},
                          {"n_inner", "0", "it must be an integer from 1"}};
  for (const Case& c : of_gpt2) {
    Json config = gpt2();
    config[c.key] = Json::parse(c.value);
    EXPECT_THAT(complaint(config), HasSubstr(c.says)) << c.key;
  }
  for (const char* text : {"", "[1]", "{\"a\":", "null", "\"\\xff\""})
    EXPECT_THROW(hf_model(text, "config.json"), UserError) << text;
  EXPECT_THROW(hf_model(std::string(2 << 20, ' '), "config.json"), UserError);
}

TEST(HfConfig, ThatIsWrittenIsReadBack) {
  std::vector<foreign::HfModel> models = {read(llama3()), read(gpt2())};
  models[1].model.sequence = 1024;
  spec::Model qwen2 = models[0].model, qwen3 = qwen2, mistral = qwen2;
  qwen2.qkv_bias = qwen3.qk_norm = true;
  qwen3.head_dim = 64;
  mistral.sliding_window = 4096;
  spec::Model windows = qwen2, linear = qwen3, yarn = mistral;
  windows.sliding_window = 128;
  windows.window_layers = "wwwf";
  linear.rope_scaling = spec::RopeScaling::linear;
  linear.rope_low_frequency_factor = 1;
  linear.rope_high_frequency_factor = 4;
  linear.rope_original_context = 8192;
  yarn.rope_scaling = spec::RopeScaling::yarn;
  yarn.rope_attention_factor = 1.1;
  for (const spec::Model& model :
       {models[0].model, models[1].model, qwen2, qwen3, mistral, windows, linear, yarn}) {
    const foreign::HfModel found = hf_model(hf_config(model, "F16"), "written");
    spec::Model compared = found.model;
    compared.sequence = model.sequence;
    EXPECT_EQ(compared, model);
    EXPECT_EQ(found.dtype, "F16");
  }
  EXPECT_EQ(hf_model(hf_config(models[1].model, "F32"), "").max_positions, 1024);
  qwen2.qk_norm = true;
  EXPECT_THROW(hf_config(qwen2, "F32"), UserError);
  mistral.window_layers = "wf";
  EXPECT_THROW(hf_config(mistral, "F32"), UserError);
}

TEST(HfConfig, KeepsItsTextUnlessTheDtypeOrThePositionsChange) {
  const std::string text = llama3().dump(4);
  const spec::Model model = read(llama3()).model;
  EXPECT_EQ(with_dtype(text, "BF16", model), text);
  Json changed = Json::parse(with_dtype(text, "F32", model));
  EXPECT_EQ(changed["torch_dtype"], "float32");
  changed["torch_dtype"] = "bfloat16";
  EXPECT_EQ(changed, llama3());
  spec::Model shorter = read(gpt2()).model;
  shorter.sequence = 128;
  EXPECT_EQ(Json::parse(with_dtype(gpt2().dump(), "F32", shorter))["n_positions"], 128);
}

TEST(HfConfig, WithBothSpellingsOfTheDtypeHasBothChanged) {
  Json both = llama3();
  both["dtype"] = "bfloat16";
  const std::string changed = with_dtype(both.dump(), "F32", read(llama3()).model);
  EXPECT_EQ(hf_model(changed, "changed").dtype, "F32");
  EXPECT_EQ(Json::parse(changed)["torch_dtype"], "float32");
}

TEST(HfConfig, AScalingByOneIsNone) {
  Json config = llama3();
  config["rope_scaling"]["factor"] = 1.0;
  Json without = llama3();
  without.erase("rope_scaling");
  EXPECT_EQ(read(config).model, read(without).model);
}

TEST(HfConfig, NestedToOverwhelmAReaderIsRefused) {
  constexpr std::size_t kDepth = 400'000;
  const std::string text = "{\"architectures\":" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}";
  EXPECT_THAT(complaint_of([&] { hf_model(text, "c.json"); }), HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace tessera::checkpoint
