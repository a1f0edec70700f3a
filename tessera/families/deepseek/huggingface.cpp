// DeepseekV3ForCausalLM of `transformers`. Every tensor has the name that the parameter has here, but for
// experts, which lie there one by one. Blocks that predict more tokens are not read: `transformers` has none.
#include "tessera/base/error.hpp"
#include "tessera/foreign/decoder_config.hpp"

namespace tessera::foreign {
namespace {

constexpr Architecture kDeepseek{"DeepseekV3ForCausalLM", "deepseek_v3"};

std::vector<ForeignStack> stacks(const std::string& name, const std::vector<std::int64_t>& shape) {
  auto tensors = expert_tensors(name, shape, {"mlp.experts", "gate_proj", "up_proj", "down_proj"});
  if (tensors.empty()) return {};
  return {{kDeepseek.type, std::move(tensors)}};
}

void read(const ConfigReader& reader, std::string_view, HfModel& out) {
  spec::Model& model = out.model;
  const Json& root = reader.root();
  read_decoder(reader, 0, out);
  reader.refuse(reader.is_true("attention_bias"), "attention_bias", "which is not computed here.");
  reader.refuse(!reader.flag("rope_interleave", true), "rope_interleave",
                "but channels are turned as pairs of neighbours here.");
  model.kv_heads = model.heads;
  model.q_rank = reader.integer(root, "q_lora_rank", "model.q_rank");
  model.kv_rank = reader.integer(root, "kv_lora_rank", "model.kv_rank");
  model.rope_dim = reader.integer(root, "qk_rope_head_dim", "model.rope_dim");
  model.head_dim = model.rope_dim + reader.integer(root, "qk_nope_head_dim", "model.head_dim");
  model.value_dim = reader.integer(root, "v_head_dim", "model.value_dim");
  model.experts = reader.integer(root, "n_routed_experts", "model.experts");
  model.experts_per_token = reader.integer(root, "num_experts_per_tok", "model.experts_per_token");
  model.expert_ffn = reader.integer(root, "moe_intermediate_size", "model.expert_ffn");
  model.shared_experts = reader.integer(root, "n_shared_experts", "model.shared_experts", 0);
  model.dense_layers = reader.integer(root, "first_k_dense_replace", "model.dense_layers", 0);
  model.router_scores = spec::RouterScores::sigmoid;
  model.router_groups = reader.integer(root, "n_group", "model.router_groups", 1);
  model.router_groups_kept = reader.integer(root, "topk_group", "model.router_groups_kept", 1);
  model.router_normalizes = reader.flag("norm_topk_prob", true);
  model.router_scale = reader.number(root, "routed_scaling_factor", "model.router_scale", 1.0);
  model.balance = spec::Balance::bias;
  model.attention_scale = scale_of_scores(reader);
}

void write(const spec::Model& model, nlohmann::ordered_json& config) {
  if (model.experts == 0 || model.balance != spec::Balance::bias ||
      model.router_scores != spec::RouterScores::sigmoid)
    throw UserError(
        "DeepSeek-V3 has experts with model.router_scores = sigmoid and model.balance = bias; other models "
        "of its family cannot be exported");
  if (model.mtp_layers > 0)
    throw UserError(
        "the block that predicts ahead (model.mtp_layers) cannot be exported: `transformers` has none");
  write_decoder(model, kDeepseek, config);
  config["head_dim"] = model.turned_size();
  config["q_lora_rank"] = model.q_rank;
  config["kv_lora_rank"] = model.kv_rank;
  config["qk_rope_head_dim"] = model.turned_size();
  config["qk_nope_head_dim"] = model.head_size() - model.turned_size();
  config["v_head_dim"] = model.value_size();
  config["n_routed_experts"] = model.experts;
  config["num_experts_per_tok"] = model.experts_per_token;
  config["moe_intermediate_size"] = model.expert_width();
  config["n_shared_experts"] = model.shared_experts;
  config["first_k_dense_replace"] = model.dense_layers;
  config["n_group"] = model.router_groups;
  config["topk_group"] = model.router_groups_kept;
  config["norm_topk_prob"] = model.router_normalizes;
  config["routed_scaling_factor"] = model.router_scale;
  config["rope_interleave"] = true;
  config["num_nextn_predict_layers"] = 0;
  write_scale_of_scores(model, config);
}

}  // namespace

ForeignFamily deepseek_files() {
  return {.architectures = {kDeepseek},
          .read = read,
          .write = write,
          .stacks = stacks,
          .derived = {"rotary_emb.inv_freq"}};
}

}  // namespace tessera::foreign
