#include "tessera/train/weights.hpp"

#include "tessera/checkpoint/huggingface/parameter_places.hpp"
#include "tessera/shard/stored_dtype.hpp"

namespace tessera::train {

namespace {

using checkpoint::TensorFiles;
using foreign::ForeignPlace;
using tensor::Tensor;

// The bytes are only read: the caller copies.
Tensor whole_in(const TensorFiles& files, const std::string& name) {
  const auto& found = files.tensor(name);
  auto* bytes = const_cast<std::byte*>(found.bytes.data());
  return tensor::view_of(bytes, found.shape, shard::stored_dtype(found.dtype, name));
}

// Each tensor is one place of the leading dims.
Tensor stacked(const TensorFiles& files, const std::vector<std::string>& tensors, const Shape& shape,
               const Box& box) {
  const std::size_t inner = checkpoint::shape_in_stack(shape, tensors.size()).size(),
                    leading = shape.size() - inner;
  Tensor out = tensor::empty(box.extent, whole_in(files, tensors.front()).scalar_type());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    Tensor place = out;
    std::vector<std::int64_t> at(leading);
    for (std::size_t dim = leading; dim-- > 0; rest /= shape[dim]) at[dim] = rest % shape[dim];
    bool is_inside = true;
    for (std::size_t dim = 0; dim < leading && is_inside; ++dim) {
      const std::int64_t within = at[dim] - box.offset[dim];
      is_inside = within >= 0 && within < box.extent[dim];
      if (is_inside) place = place.select(0, within);
    }
    if (is_inside) place.copy_(shard::in_box(whole_in(files, tensors[i]), box, leading));
  }
  return out;
}

Tensor value_in(const TensorFiles& files, const program::Parameter& parameter, const Slice& part) {
  const Box box = parameter.box(part.position);
  const Shape shape = parameter.whole_shape();
  if (const auto stack = checkpoint::stack_of({parameter.name, shape}, files))
    return stacked(files, *stack, shape, box);
  const ForeignPlace place = checkpoint::place_of(parameter.name, files);
  const Tensor stored = whole_in(files, place.tensor);
  const Tensor whole = shape == checkpoint::foreign_shape(shape) ? stored : stored.view(shape);
  const std::int64_t rows = shape.front();
  return shard::in_box((place.transposed ? whole.t() : whole).narrow(0, place.part * rows, rows), box);
}

}  // namespace

WeightsFile::~WeightsFile() = default;

WeightsFile::WeightsFile(const spec::Model& model, const program::Tables& tables)
    : file_(std::make_unique<TensorFiles>(model.weights, checkpoint::links_of(model))) {
  std::vector<checkpoint::Wanted> wanted;
  for (const auto& bucket : tables.buckets)
    for (const auto& parameter : bucket.parameters)
      wanted.push_back({parameter.name, parameter.whole_shape()});
  checkpoint::check_fits(*file_, wanted);
}

void WeightsFile::fill(shard::FlatBucket& bucket, ActivityLog* log) const {
  for (const auto& parameter : bucket.table().parameters) {
    const During loading(log, Doing::loading);
    bucket.fill(parameter, value_in(*file_, parameter, bucket.part()));
  }
}

}  // namespace tessera::train
