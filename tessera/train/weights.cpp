#include <set>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/safetensors.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

namespace {
at::ScalarType dtype_of(const std::string& word, const std::string& where) {
  if (word == "F32") return at::kFloat;
  if (word == "F64") return at::kDouble;
  if (word == "BF16") return at::kBFloat16;
  if (word == "F16") return at::kHalf;
  throw UserError(cat(where, " is stored as ", word, "; weights may be F64, F32, BF16 or F16"));
}

// A tensor of the file that nothing reads means another model: more layers, biases, experts.
void refuse_what_the_model_lacks(const checkpoint::Safetensors& file, std::span<shard::FlatBucket> buckets) {
  std::set<std::string> known;
  for (auto& bucket : buckets)
    for (const auto& parameter : bucket.table().parameters) known.insert(parameter.name);
  for (const auto& [name, tensor] : file.tensors()) {
    const bool derived = name.ends_with("rotary_emb.inv_freq");
    const bool tied_copy = name == "lm_head.weight" && known.contains("model.embed_tokens.weight");
    if (known.contains(name) || derived || tied_copy) continue;
    throw UserError(cat(file.path(), " holds ", name,
                        ", which the model of this run has not. Make [model] match the file."));
  }
}
}  // namespace

void read_weights(const std::string& path, std::span<shard::FlatBucket> buckets) {
  const checkpoint::Safetensors file(path);
  refuse_what_the_model_lacks(file, buckets);
  for (auto& bucket : buckets)
    for (const auto& parameter : bucket.table().parameters) {
      const auto& found = file.tensor(parameter.name);
      const std::string where = cat(parameter.name, " in ", path);
      if (found.shape != parameter.shape) {
        const auto words = [](const std::vector<std::int64_t>& shape) {
          std::string text;
          for (const auto size : shape) text += cat(text.empty() ? "" : " x ", size);
          return text;
        };
        throw UserError(cat(where, " is ", words(found.shape), "; the model of this run needs ",
                            words(parameter.shape), ". Make [model] match the file."));
      }
      // The bytes are only read: the copy below is what the model keeps.
      auto* bytes = const_cast<std::byte*>(found.bytes.data());
      bucket.value_of(parameter).copy_(tensor::view_of(bytes, found.shape, dtype_of(found.dtype, where)));
    }
}

}  // namespace tessera::train
