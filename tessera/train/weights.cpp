#include "tessera/train/weights.hpp"

#include "tessera/checkpoint/huggingface/parameter_places.hpp"
#include "tessera/train/stored_dtype.hpp"

namespace tessera::train {

namespace {

using checkpoint::ForeignPlace;
using checkpoint::TensorFiles;
using tensor::Tensor;

// The bytes are only read: the caller copies.
Tensor value_in(const TensorFiles& files, const program::Parameter& parameter, const Slice& part) {
  const ForeignPlace place = checkpoint::place_of(parameter.name, files);
  const auto& found = files.tensor(place.tensor);
  auto* bytes = const_cast<std::byte*>(found.bytes.data());
  const Tensor whole = tensor::view_of(bytes, found.shape, stored_dtype(found.dtype, place.tensor));
  const std::int64_t rows = parameter.whole_shape(part.count).front();
  Tensor value = (place.transposed ? whole.t() : whole).narrow(0, place.part * rows, rows);
  const Box box = parameter.box(part);
  for (std::size_t dim = 0; dim < box.offset.size(); ++dim)
    value = value.narrow(static_cast<std::int64_t>(dim), box.offset[dim], box.extent[dim]);
  return value;
}

}  // namespace

WeightsFile::~WeightsFile() = default;

WeightsFile::WeightsFile(const spec::Model& model, const program::Tables& tables)
    : file_(std::make_unique<TensorFiles>(model.weights, checkpoint::links_of(model))) {
  std::vector<checkpoint::Wanted> wanted;
  for (const auto& bucket : tables.buckets)
    for (const auto& parameter : bucket.parameters)
      wanted.push_back({parameter.name, parameter.whole_shape(tables.size_of(bucket.cut_over))});
  checkpoint::check_fits(*file_, wanted);
}

void WeightsFile::fill(shard::FlatBucket& bucket, ActivityLog* log) const {
  for (const auto& parameter : bucket.table().parameters) {
    const During loading(log, Doing::loading);
    bucket.fill(parameter, value_in(*file_, parameter, bucket.part()));
  }
}

}  // namespace tessera::train
