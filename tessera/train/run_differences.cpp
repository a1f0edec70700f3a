#include "tessera/train/run_differences.hpp"

#include <set>

#include "tessera/base/text.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::train {
namespace {

// Keys that mean nothing in this model have one value, so that models compare equal which compute the same.
spec::Run in_one_form(spec::Run run) {
  spec::Model& model = run.model;
  const spec::Model plain;
  model.head_dim = model.head_size();
  const spec::FamilyTraits& family = spec::traits(model.family);
  if (family.no_grouped_queries) model.kv_heads = model.heads;
  if (!family.no_rotary.empty()) {
    model.rope_theta = plain.rope_theta;
    model.rope_scaling_factor = plain.rope_scaling_factor;
  }
  if (!family.no_window.empty()) model.sliding_window = plain.sliding_window;
  if (!family.no_qkv_bias.empty()) model.qkv_bias = plain.qkv_bias;
  if (!family.no_qk_norm.empty()) model.qk_norm = plain.qk_norm;
  model.window_layers = model.windows();
  if (model.rope_scaling_factor == 1) model.rope_scaling = plain.rope_scaling;
  if (model.rope_scaling_factor == 1 || model.rope_scaling == spec::RopeScaling::linear) {
    model.rope_low_frequency_factor = plain.rope_low_frequency_factor;
    model.rope_high_frequency_factor = plain.rope_high_frequency_factor;
    model.rope_original_context = plain.rope_original_context;
  }
  return run;
}

// All of [model] but how weights and samples come about.
bool defines_model(const spec::Key& key) {
  static const std::set<std::string> others = {"sequence", "init_std", "dropout", "weights", "follow_links"};
  return key.section == "model" && !others.contains(key.name);
}

// Which samples a step is made of. The file itself is compared apart.
bool defines_data(const spec::Key& key) {
  static const std::set<std::string> others = {"training.global_batch", "model.sequence"};
  static const std::set<std::string> elsewhere = {"path", "sources", "tokenizer", "bytes_as_tokens"};
  return (key.section == "data" && !elsewhere.contains(key.name)) || others.contains(key.full());
}

std::vector<std::string> differences(const spec::Run& run, const spec::Run& saved,
                                     bool (*counts)(const spec::Key&)) {
  const spec::Run a = in_one_form(run), b = in_one_form(saved);
  std::vector<std::string> out;
  for (const spec::Key& key : spec::schema())
    if (counts(key) && key.get(a) != key.get(b))
      out.push_back(cat(key.full(), " = ", spec::value_text(key.get(a)), ", the checkpoint has ",
                        spec::value_text(key.get(b))));
  return out;
}

}  // namespace

std::vector<std::string> model_differences(const spec::Run& run, const spec::Run& saved) {
  return differences(run, saved, defines_model);
}

std::vector<std::string> data_differences(const spec::Run& run, const spec::Run& saved) {
  return differences(run, saved, defines_data);
}

}  // namespace tessera::train
