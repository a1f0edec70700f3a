#include "tessera/train/run_differences.hpp"

#include <set>

#include "tessera/base/text.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::train {
namespace {

// All of [model] but how weights and samples come about.
bool defines_model(const spec::Key& key) {
  static const std::set<std::string> others = {
      "sequence", "init_std",       "dropout",      "weights",         "follow_links",
      "balance",  "balance_weight", "balance_rate", "router_z_weight", "capacity_factor"};
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
  spec::Run a = run, b = saved;
  for (spec::Run* each : {&a, &b}) each->model = spec::in_one_form(each->model);
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
