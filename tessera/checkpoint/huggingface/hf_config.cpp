#include "tessera/checkpoint/huggingface/hf_config.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/families/families.hpp"
#include "tessera/foreign/config_reader.hpp"

namespace tessera::checkpoint {
namespace {

using OrderedJson = nlohmann::ordered_json;

using Dtype = std::pair<std::string_view, std::string_view>;
constexpr std::array<Dtype, 4> kDtypes = {
    {{"float32", "F32"}, {"float64", "F64"}, {"bfloat16", "BF16"}, {"float16", "F16"}}};

struct FoundArchitecture {
  spec::Family family;
  foreign::Architecture architecture;
};

std::vector<FoundArchitecture> all_architectures() {
  std::vector<FoundArchitecture> out;
  for (const foreign::ForeignFamily& family : families::foreign_families())
    for (const foreign::Architecture& architecture : family.architectures)
      out.push_back({static_cast<spec::Family>(&family - families::foreign_families().data()), architecture});
  return out;
}

// By the first of `architectures`, or by `model_type` where that list is missing.
FoundArchitecture architecture(const foreign::ConfigReader& reader) {
  const foreign::Json& list = reader.at("architectures");
  const bool has_list = list.is_array() && !list.empty();
  const foreign::Json& given = has_list ? list.front() : reader.at("model_type");
  const std::string word = given.is_string() ? given.get<std::string>() : "";
  const auto all = all_architectures();
  const auto found = std::ranges::find(all, std::string_view(word), [&](const FoundArchitecture& known) {
    return has_list ? known.architecture.name : known.architecture.type;
  });
  std::vector<std::string> names;
  for (const FoundArchitecture& known : all) names.emplace_back(known.architecture.name);
  reader.need(found != all.end(),
              cat("describes ", has_list ? "the architecture " : "a model_type ",
                  foreign::ConfigReader::shown(given), "; it must be one of ", join(names, ", ")));
  reader.refuse(!reader.at("auto_map").is_null(), "auto_map",
                "code of its own, which is not run. If the model is a plain one, remove that key.");
  reader.refuse(!reader.at("quantization_config").is_null(), "quantization_config",
                "but quantised weights are not read: save the model in bfloat16 or float32.");
  return *found;
}

std::string dtype_word(const foreign::Json& value) {
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

}  // namespace

foreign::HfModel hf_model(std::string_view text, const std::string& path) {
  const foreign::ConfigReader reader(text, path);
  const auto [family, is] = architecture(reader);
  foreign::HfModel out;
  out.model.family = family;
  families::foreign_family(family).read(reader, is.type, out);
  const spec::Model& model = out.model;
  reader.need(model.heads % model.kv_heads == 0 && (model.head_dim > 0 || model.hidden % model.heads == 0),
              cat("has heads that do not fit: hidden ", model.hidden, ", heads ", model.heads,
                  ", key and value heads ", model.kv_heads));
  const foreign::Json& dtype = reader.at("dtype");
  out.dtype = dtype_word(dtype.is_null() ? reader.at("torch_dtype") : dtype);
  return out;
}

std::string hf_config(const spec::Model& model, const std::string& dtype) {
  OrderedJson out;
  families::foreign_family(model.family).write(model, out);
  out["initializer_range"] = model.init_std;
  out["tie_word_embeddings"] = model.tied_embeddings;
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) out[token] = nullptr;
  out["dtype"] = torch_word(dtype);
  return out.dump(2) + "\n";
}

std::string with_dtype(const std::string& config, const std::string& dtype, const spec::Model& model) {
  const foreign::HfModel before = hf_model(config, kConfigName);
  const auto& positions = families::foreign_family(model.family).position_keys;
  if (before.dtype == dtype && (positions.empty() || before.max_positions == model.sequence)) return config;
  OrderedJson out = OrderedJson::parse(config);
  if (!out.contains("torch_dtype")) out["dtype"] = nullptr;
  for (const char* key : {"dtype", "torch_dtype"})
    if (out.contains(key)) out[key] = torch_word(dtype);
  for (const char* key : positions)
    if (key == positions.front() || out.contains(key)) out[key] = model.sequence;
  return out.dump(2) + "\n";
}

}  // namespace tessera::checkpoint
