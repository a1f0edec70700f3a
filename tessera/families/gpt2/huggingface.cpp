// GPT2LMHeadModel of `transformers`. Our parameters are unfused and [out, in]; its matrices are stored as
// [in, out], with q, k and v as one:
//
//   ours, after transformer.h.<i>.        theirs
//   attn.{q,k,v}_proj.{weight,bias}       thirds of attn.c_attn.{weight,bias}
//   attn.out_proj.{weight,bias}           attn.c_proj.{weight,bias}
//   mlp.up_proj.{weight,bias}             mlp.c_fc.{weight,bias}
//   mlp.down_proj.{weight,bias}           mlp.c_proj.{weight,bias}
//
// Every other name is the same in both. The published files leave the prefix "transformer." out.
#include <array>

#include "tessera/base/error.hpp"
#include "tessera/foreign/config_reader.hpp"
#include "tessera/foreign/foreign_family.hpp"

namespace tessera::foreign {
namespace {

struct Rule {
  std::string_view ours, theirs;
  std::int64_t part, parts;
};
constexpr std::array<Rule, 6> kRules = {{{".attn.q_proj.", ".attn.c_attn.", 0, 3},
                                         {".attn.k_proj.", ".attn.c_attn.", 1, 3},
                                         {".attn.v_proj.", ".attn.c_attn.", 2, 3},
                                         {".attn.out_proj.", ".attn.c_proj.", 0, 1},
                                         {".mlp.up_proj.", ".mlp.c_fc.", 0, 1},
                                         {".mlp.down_proj.", ".mlp.c_proj.", 0, 1}}};

ForeignPlace place(const std::string& name) {
  ForeignPlace place{.tensor = name, .may_be_longer = name == "transformer.wpe.weight"};
  for (const Rule& rule : kRules) {
    const auto at = name.find(rule.ours);
    if (at == std::string::npos) continue;
    place.tensor.replace(at, rule.ours.size(), rule.theirs);
    place.transposed = name.ends_with(".weight");
    place.part = rule.part;
    place.parts = rule.parts;
  }
  return place;
}

void read(const ConfigReader& reader, std::string_view, HfModel& out) {
  spec::Model& model = out.model;
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

void write(const spec::Model& model, nlohmann::ordered_json& config) {
  config = {{"architectures", {"GPT2LMHeadModel"}},
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

}  // namespace

ForeignFamily gpt2_files() {
  return {.architectures = {{"GPT2LMHeadModel", "gpt2"}},
          .read = read,
          .write = write,
          .place = place,
          .prefix = "transformer.",
          .derived = {".attn.bias", ".attn.masked_bias"},
          .position_keys = {"n_positions", "n_ctx"}};
}

}  // namespace tessera::foreign
