// The tensors of one safetensors file, or of a Hugging Face folder with model.safetensors or with shards and
// their index. Files are mapped, so only what is used is read.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tessera/checkpoint/format/safetensors.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::checkpoint {

inline constexpr char kIndexName[] = "model.safetensors.index.json";

// Of an index's text: the file of each tensor. Throws UserError naming `path` when it is malformed or a
// file's name leaves the folder.
std::map<std::string, std::string> parse_index(std::string_view text, const std::string& path);

class TensorFiles {
 public:
  // Throws UserError naming the file and what is wrong in it, or a link of the folder that is refused.
  explicit TensorFiles(const std::string& path, Links links = Links::refused);

  const std::string& path() const { return path_; }
  // In the order of their names. Their spans live as long as this object.
  const std::vector<std::unique_ptr<Safetensors>>& files() const { return files_; }
  const std::map<std::string, TensorBytes>& tensors() const { return tensors_; }
  // Throws UserError with the nearest name when there is no such tensor.
  const TensorBytes& tensor(const std::string& name) const;

 private:
  void add(std::unique_ptr<Safetensors> file);

  std::string path_;
  std::vector<std::unique_ptr<Safetensors>> files_;
  std::map<std::string, TensorBytes> tensors_;
};

// Whether links are followed in the folder of a model's weights.
Links links_of(const spec::Model& model);

// The model in a folder's config.json; nothing if it is no folder.
std::optional<spec::Described> described_folder(const std::string& folder, Links links = Links::refused);
// The same of model.weights.
std::optional<spec::Described> described(const spec::Model& asked);

}  // namespace tessera::checkpoint
