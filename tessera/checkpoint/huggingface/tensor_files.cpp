#include "tessera/checkpoint/huggingface/tensor_files.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"
#include "tessera/checkpoint/huggingface/hf_config.hpp"

namespace tessera::checkpoint {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kSingleName[] = "model.safetensors";
constexpr int kMaxDepth = 32;

// A name of a file in the folder itself.
bool stays_inside(const std::string& name) {
  return name.ends_with(".safetensors") && !name.starts_with('.') &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

std::map<std::string, std::string> parse_index(std::string_view text, const std::string& path) {
  if (json_depth(text) > kMaxDepth) throw UserError(cat(path, " is nested deeper than any index of shards"));
  const Json root = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (!root.is_object() || map == root.end() || !map->is_object())
    throw UserError(cat(path, " has no table weight_map, so it is no index of shards"));
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !stays_inside(file.get<std::string>()))
      throw UserError(cat(path, ": tensor '", tensor,
                          "' is not in a .safetensors file of this folder: shards lie beside their index"));
    out[tensor] = file.get<std::string>();
  }
  return out;
}

TensorFiles::TensorFiles(const std::string& path, Links links) : path_(path) {
  if (!fs::is_directory(path)) {
    add(std::make_unique<Safetensors>(path));
    return;
  }
  const auto add_of_folder = [&](const std::string& name) {
    add(std::make_unique<Safetensors>(FolderFile{path, name, links}));
  };
  const fs::path folder(path);
  if (const auto index = folder / kIndexName; fs::exists(index)) {
    const auto file_of = parse_index(MappedFile(FolderFile{path, kIndexName, links}).text(), index.string());
    std::set<std::string> names;
    for (const auto& [tensor, file] : file_of) names.insert(file);
    for (const auto& name : names) add_of_folder(name);
    for (const auto& [tensor, file] : file_of)
      if (!tensors_.contains(tensor))
        throw UserError(cat(index.string(), " says that ", file, " holds '", tensor, "', which it does not"));
    return;
  }
  if (!fs::exists(folder / kSingleName))
    throw UserError(cat(path, " has neither ", kSingleName, " nor ", kIndexName,
                        ". Weights in another format must be saved as safetensors first."));
  add_of_folder(kSingleName);
}

void TensorFiles::add(std::unique_ptr<Safetensors> file) {
  files_.push_back(std::move(file));
  for (const auto& [name, tensor] : files_.back()->tensors())
    if (!tensors_.emplace(name, tensor).second)
      throw UserError(
          cat(files_.back()->path(), " holds '", name, "', which another file of the folder holds too"));
}

const TensorBytes& TensorFiles::tensor(const std::string& name) const {
  if (files_.size() == 1) return files_.front()->tensor(name);
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : tensors_) names.push_back(known);
  const auto near = nearest(name, names);
  throw UserError(cat("no file of '", path_, "' has a tensor '", name, "'",
                      near ? cat("; did you mean '", *near, "'?") : cat(" among its ", names.size())));
}

Links links_of(const spec::Model& model) { return model.follow_links ? Links::followed : Links::refused; }

std::optional<spec::Described> described(const spec::Model& asked) {
  return described_folder(asked.weights, links_of(asked));
}

std::optional<spec::Described> described_folder(const std::string& folder, Links links) {
  if (!fs::is_directory(folder)) return std::nullopt;
  const std::string path = (fs::path(folder) / kConfigName).string();
  if (!fs::exists(path))
    throw UserError(cat("'", folder, "': a folder of weights needs a ", kConfigName, "; is the path right?"));
  foreign::HfModel found = hf_model(MappedFile(FolderFile{folder, kConfigName, links}).text(), path);
  return spec::Described{found.model, found.max_positions, path};
}

}  // namespace tessera::checkpoint
