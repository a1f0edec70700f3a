#include "tessera/shard/flat_bucket.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"

namespace tessera::shard {

using program::Bucket;
using program::Dtype;
using program::Init;
using program::Parameter;
using tensor::Tensor;

at::ScalarType to_torch(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return at::kFloat;
    case Dtype::fp64:
      return at::kDouble;
    case Dtype::bf16:
      return at::kBFloat16;
    case Dtype::fp16:
      return at::kHalf;
  }
  throw Bug("a dtype outside its enumeration");
}

namespace {
template <typename T>
void draw(T* out, const Parameter& parameter, std::uint64_t seed) {
  const std::uint64_t stream = stream_of(parameter.name);
  for (std::int64_t i = 0; i < parameter.elements(); ++i)
    out[i] = static_cast<T>(parameter.init.std * random_normal(seed, stream, static_cast<std::uint64_t>(i)));
}
}  // namespace

FlatBucket::FlatBucket(const Bucket& table, std::uint64_t seed, at::Device device)
    : table_(&table), has_weight_(table.parameters.size(), false) {
  shard_ = tensor::zeros({table.elements}, to_torch(table.storage));
  gradient_ = tensor::zeros({table.elements}, to_torch(table.gradient), device);
  CHECK(table.storage == Dtype::fp32 || table.storage == Dtype::fp64, "bucket ", table.name,
        " is stored in 16 bits");
  for (const Parameter& parameter : table.parameters) {
    switch (parameter.init.kind) {
      case Init::Kind::zeros:
        break;
      case Init::Kind::ones:
        value_of(parameter).fill_(1);
        break;
      case Init::Kind::normal:  // on the CPU whatever the device: the values are part of the contract
        if (table.storage == Dtype::fp64)
          draw(shard_.mutable_data_ptr<double>() + parameter.offset, parameter, seed);
        else
          draw(shard_.mutable_data_ptr<float>() + parameter.offset, parameter, seed);
        break;
    }
  }
  shard_ = shard_.to(device);
  full_ = table.full_resident ? shard_ : tensor::zeros({table.elements}, to_torch(table.compute), device);
}

Tensor FlatBucket::value_of(const Parameter& parameter) const {
  return shard_.narrow(0, parameter.offset, parameter.elements()).view(parameter.shape);
}

Tensor FlatBucket::gradient_of(const Parameter& parameter) const {
  return gradient_.narrow(0, parameter.offset, parameter.elements()).view(parameter.shape);
}

Tensor FlatBucket::run_of(const Tensor& flat, const Parameter& first, std::int64_t rows) const {
  tensor::Shape shape = first.shape;
  shape[0] = rows;
  std::int64_t elements = 1;
  for (const auto size : shape) elements *= size;
  return flat.narrow(0, first.offset, elements).view(shape);
}

Weight& FlatBucket::weight(std::span<const std::string> names) {
  for (auto& [first_name, weight] : weights_)
    if (first_name == names.front()) return weight;
  const auto& parameters = table_->parameters;
  const auto first = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const Parameter& p) { return p.name == names.front(); });
  CHECK(static_cast<std::size_t>(parameters.end() - first) >= names.size(), "bucket ", table_->name,
        " has no ", names.front());
  std::int64_t rows = 0, offset = first->offset;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Parameter& parameter = *(first + static_cast<std::ptrdiff_t>(i));
    CHECK(parameter.name == names[i] && parameter.offset == offset, names[i], " does not follow ",
          names.front(), " in bucket ", table_->name);
    rows += parameter.shape[0];
    offset += parameter.elements();
    has_weight_[static_cast<std::size_t>(first - parameters.begin()) + i] = true;
  }
  weights_.emplace_back(names.front(), Weight(run_of(full_, *first, rows), run_of(gradient_, *first, rows)));
  return weights_.back().second;
}

void FlatBucket::gather() {
  if (!table_->full_resident) full_.copy_(shard_);
}

void FlatBucket::begin_step() {
  for (auto& [name, weight] : weights_) weight.begin_step();
}

void FlatBucket::end_gradient() {
  for (auto& [name, weight] : weights_) weight.end_gradient();
  // What no unit of this rank computes with, but one of another rank: positions beside a table that the head is tied to.
  for (std::size_t i = 0; i < has_weight_.size(); ++i)
    if (!has_weight_[i]) gradient_of(table_->parameters[i]).zero_();
}

Weight& find_weight(std::span<FlatBucket> buckets, std::span<const std::string> names) {
  for (FlatBucket& bucket : buckets)
    for (const auto& parameter : bucket.table().parameters)
      if (parameter.name == names.front()) return bucket.weight(names);
  throw Bug(cat("no bucket holds ", names.front()));
}

}  // namespace tessera::shard
