#include "tessera/train/weights.hpp"

#include <set>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/foreign.hpp"
#include "tessera/checkpoint/tensor_files.hpp"

namespace tessera::train {

namespace {

using checkpoint::ForeignPlace;
using checkpoint::TensorFiles;
using tensor::Tensor;

const std::string kHead = "lm_head.weight";

at::ScalarType dtype_of(const std::string& word, const std::string& where) {
  if (word == "F32") return at::kFloat;
  if (word == "F64") return at::kDouble;
  if (word == "BF16") return at::kBFloat16;
  if (word == "F16") return at::kHalf;
  throw UserError(cat(where, " is stored as ", word, "; weights may be F64, F32, BF16 or F16"));
}

std::string words(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto size : shape) text += cat(text.empty() ? "" : " x ", size);
  return text;
}

// Under our own name, or where `transformers` puts it, with or without its prefix.
ForeignPlace place_of(const std::string& name, const TensorFiles& file) {
  const auto& tensors = file.tensors();
  if (tensors.contains(name) && !checkpoint::foreign_place(name).may_be_longer) return {.tensor = name};
  ForeignPlace place = checkpoint::foreign_place(name);
  if (const std::string bare = checkpoint::without_prefix(place.tensor);
      !tensors.contains(place.tensor) && tensors.contains(bare))
    place.tensor = bare;
  if (!tensors.contains(place.tensor)) place.tensor = name;  // so that the complaint speaks of the parameter
  return place;
}

void check_shape(const std::vector<std::int64_t>& found, const program::Parameter& parameter,
                 const ForeignPlace& place, const std::string& where) {
  auto needed = parameter.shape;
  needed.front() *= place.parts;
  if (place.transposed) std::swap(needed.front(), needed.back());
  auto compared = found;
  if (place.may_be_longer && !found.empty()) compared.front() = std::min(found.front(), needed.front());
  if (compared != needed)
    throw UserError(cat(where, " is ", words(found), "; the model of this run needs ", words(needed),
                        ". Make [model] match the file."));
}

// The bytes are only read: the caller copies or compares.
Tensor whole_of(const TensorFiles& file, const std::string& name) {
  const auto& found = file.tensor(name);
  auto* bytes = const_cast<std::byte*>(found.bytes.data());
  return tensor::view_of(bytes, found.shape, dtype_of(found.dtype, cat(name, " in ", file.path())));
}

Tensor value_in(const TensorFiles& file, const program::Parameter& parameter, const ForeignPlace& place) {
  check_shape(file.tensor(place.tensor).shape, parameter, place, cat(place.tensor, " in ", file.path()));
  const Tensor whole = whole_of(file, place.tensor);
  const std::int64_t rows = parameter.shape.front();
  return (place.transposed ? whole.t() : whole).narrow(0, place.part * rows, rows);
}

// A tied head may lie in the file a second time; a head of its own is another model, though every shape fits.
void check_tied_head(const TensorFiles& file, const std::string& table) {
  if (!file.tensors().contains(table) || tensor::bit_equal(whole_of(file, kHead), whole_of(file, table)))
    return;
  throw UserError(cat(kHead, " in ", file.path(), " differs from ", table,
                      ", and the head of this run is tied to that table. Write model.tied_embeddings = false "
                      "to train the head of the file."));
}

}  // namespace

WeightsFile::~WeightsFile() = default;

WeightsFile::WeightsFile(const std::string& path, const program::Tables& tables)
    : file_(std::make_unique<TensorFiles>(path)) {
  const TensorFiles& file = *file_;
  std::set<std::string> used;
  for (const auto& bucket : tables.buckets)
    for (const auto& parameter : bucket.parameters) used.insert(place_of(parameter.name, file).tensor);
  // The first parameter of the tables is that of the tokens' embedding.
  const bool second_head = file.tensors().contains(kHead) && !used.contains(kHead);
  if (second_head)
    check_tied_head(file, place_of(tables.buckets.front().parameters.front().name, file).tensor);
  // A tensor of the file that nothing reads means another model: more layers, biases, experts.
  for (const auto& [name, tensor] : file.tensors())
    if (!used.contains(name) && name != kHead && !checkpoint::is_derived(name))
      throw UserError(
          cat(path, " holds ", name, ", which the model of this run has not. Make [model] match the file."));
}

void WeightsFile::fill(shard::FlatBucket& bucket) const {
  for (const auto& parameter : bucket.table().parameters)
    bucket.fill(parameter, value_in(*file_, parameter, place_of(parameter.name, *file_)));
}

}  // namespace tessera::train
