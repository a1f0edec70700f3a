#include "tessera/shard/flat_bucket.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/tensor/account.hpp"

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

Tensor parameter_in(const Tensor& flat, const Parameter& parameter) {
  return flat.narrow(0, parameter.offset, parameter.elements()).view(parameter.shape);
}

Tensor in_box(Tensor t, const Box& box, std::size_t first_dim) {
  for (std::size_t dim = first_dim; dim < box.offset.size(); ++dim)
    t = t.narrow(static_cast<std::int64_t>(dim - first_dim), box.offset[dim], box.extent[dim]);
  return t;
}

namespace {

// Elements [first, first + count) of a parameter that lie in a slice, and where they lie there.
struct Overlap {
  std::int64_t first = 0, count = 0, place = 0;
};

Overlap overlap(const Parameter& parameter, std::int64_t slice_first, std::int64_t slice_elements) {
  const std::int64_t first = std::max(parameter.offset, slice_first);
  const std::int64_t end = std::min(parameter.offset + parameter.elements(), slice_first + slice_elements);
  return {first - parameter.offset, std::max<std::int64_t>(end - first, 0), first - slice_first};
}

// Elements [first, first + count) of the whole parameter.
template <typename T>
void draw_run(T* out, const Parameter& parameter, std::int64_t first, std::int64_t count,
              std::uint64_t seed) {
  const std::uint64_t stream = stream_of(parameter.name);
  std::array<double, 1024> normals;
  for (std::int64_t done = 0; done < count;) {
    const auto some =
        std::span(normals).first(static_cast<std::size_t>(std::min<std::int64_t>(1024, count - done)));
    random_normals(seed, stream, static_cast<std::uint64_t>(first + done), some);
    for (const double normal : some) out[done++] = static_cast<T>(parameter.init.std * normal);
  }
}

template <typename T>
void draw_normal(T* out, const Parameter& parameter, const Overlap& where, const Slice& part,
                 std::uint64_t seed) {
  const Box whole = whole_box(parameter.whole_shape());
  for (const Box& box : boxes_of_range(parameter.shape, where.first, where.count)) {
    const Box mine = moved(box, parameter.box(part.position).offset);
    for_each_run(mine, whole, mine,
                 [&](const CopyRun& run) { draw_run(out + run.to, parameter, run.from, run.count, seed); });
    out += box.elements();
  }
}

}  // namespace

FlatBucket::FlatBucket(const Bucket& table, std::uint64_t seed, Slice slice, at::Device device, Slice part,
                       bool has_shard)
    : table_(&table),
      slice_(slice),
      part_(part),
      has_shard_(has_shard),
      device_(device),
      has_weight_(table.parameters.size(), false) {
  TESSERA_CHECK(table.elements % slice.count == 0, "bucket ", table.name, " of ", table.elements,
                " elements is cut into ", slice.count);
  TESSERA_CHECK(table.storage == Dtype::fp32 || table.storage == Dtype::fp64, "bucket ", table.name,
                " is stored in 16 bits");
  TESSERA_CHECK(!table.full_resident || slice.count == 1, "bucket ", table.name, " is whole and cut at once");
  if (has_shard) draw(seed);
}

// On the CPU whatever the device: the values are part of the contract.
void FlatBucket::draw(std::uint64_t seed) {
  const tensor::CategoryScope as(Category::parameters);
  Tensor shard = tensor::zeros({shard_elements()}, to_torch(table_->storage));
  for (const Parameter& parameter : table_->parameters) {
    const Overlap where = overlap(parameter, slice_.position * shard_elements(), shard_elements());
    if (where.count == 0) continue;
    switch (parameter.init.kind) {
      case Init::Kind::zeros:
        break;
      case Init::Kind::ones:
        shard.narrow(0, where.place, where.count).fill_(1);
        break;
      case Init::Kind::normal:
        if (parameter.init.std == 0) break;
        if (table_->storage == Dtype::fp64)
          draw_normal(shard.mutable_data_ptr<double>() + where.place, parameter, where, part_, seed);
        else
          draw_normal(shard.mutable_data_ptr<float>() + where.place, parameter, where, part_, seed);
        break;
    }
  }
  set_shard(shard.to(device_));
}

void FlatBucket::fill(const Parameter& parameter, const Tensor& values) {
  TESSERA_CHECK(values.sizes() == parameter.shape, "values of ", parameter.name, " in another shape");
  const Overlap where = overlap(parameter, slice_.position * shard_elements(), shard_elements());
  if (where.count == 0) return;
  shard_.narrow(0, where.place, where.count).copy_(values.reshape({-1}).narrow(0, where.first, where.count));
}

Weight& FlatBucket::weight(std::span<const std::string> names) {
  for (Run& run : runs_)
    if (run.first_name == names.front()) return run.weight;
  const auto& parameters = table_->parameters;
  const auto first = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const Parameter& p) { return p.name == names.front(); });
  TESSERA_CHECK(static_cast<std::size_t>(parameters.end() - first) >= names.size(), "bucket ", table_->name,
                " has no ", names.front());
  Run run{names.front(), first->offset, 0, first->shape, Weight(Tensor(), Tensor())};
  run.shape[0] = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Parameter& parameter = *(first + static_cast<std::ptrdiff_t>(i));
    TESSERA_CHECK(parameter.name == names[i] && parameter.offset == run.offset + run.elements, names[i],
                  " does not follow ", names.front(), " in bucket ", table_->name);
    run.shape[0] += parameter.shape[0];
    run.elements += parameter.elements();
    has_weight_[static_cast<std::size_t>(first - parameters.begin()) + i] = true;
  }
  runs_.push_back(std::move(run));
  point_at(full_);
  point_gradients();
  return runs_.back().weight;
}

void FlatBucket::point_at(const Tensor& whole) {
  for (Run& run : runs_)
    run.weight.set_value(whole.defined() ? whole.narrow(0, run.offset, run.elements).view(run.shape)
                                         : Tensor());
}

void FlatBucket::point_gradients() {
  for (Run& run : runs_)
    run.weight.set_gradient(weight_gradient_.defined()
                                ? weight_gradient_.narrow(0, run.offset, run.elements).view(run.shape)
                                : Tensor());
}

void FlatBucket::set_shard(Tensor shard) {
  shard_ = std::move(shard);
  if (!table_->full_resident) return;
  full_ = shard_;
  point_at(full_);
}

void FlatBucket::begin_full(Tensor memory) {
  TESSERA_CHECK(!table_->full_resident && !full_.defined(), "Full of bucket ", table_->name,
                " is made twice");
  full_ = begun_whole(std::move(memory));
  point_at(full_);
}

Tensor FlatBucket::begun_whole(Tensor memory) const {
  TESSERA_CHECK(shard_.defined() || !has_shard_, "bucket ", table_->name,
                " is gathered while its shard lies outside");
  const tensor::CategoryScope as(Category::parameters);
  Tensor whole = memory.defined() ? std::move(memory)
                                  : tensor::empty({table_->elements}, to_torch(table_->compute), device_);
  if (has_shard_) slice_of(whole).copy_(shard_);
  return whole;
}

void FlatBucket::set_full(Tensor full) {
  TESSERA_CHECK(!table_->full_resident, "Full of bucket ", table_->name, " is its shard");
  full_ = std::move(full);
  point_at(full_);
}

void FlatBucket::end_full() {
  if (table_->full_resident) return;
  full_ = Tensor();
  point_at(full_);
}

Tensor FlatBucket::slice_of(const Tensor& whole) const {
  return whole.narrow(0, slice_.position * shard_elements(), shard_elements());
}

void FlatBucket::begin_weight_gradient(Tensor memory) {
  if (weight_gradient_.defined()) return;
  const tensor::CategoryScope as(Category::gradients);
  weight_gradient_ = memory.defined()
                         ? std::move(memory)
                         : tensor::empty({table_->elements}, to_torch(table_->gradient), device_);
  point_gradients();
}

void FlatBucket::close_weight_gradient() {
  TESSERA_CHECK(weight_gradient_.defined(), "bucket ", table_->name, " has no gradient to reduce");
  for (Run& run : runs_) run.weight.end_gradient();
  // What no unit of this rank computes with, but one of another rank: positions beside a table that the head
  // is tied to.
  std::int64_t end = 0;
  for (std::size_t i = 0; i < has_weight_.size(); ++i) {
    const Parameter& parameter = table_->parameters[i];
    end = parameter.offset + parameter.elements();
    if (!has_weight_[i]) parameter_in(weight_gradient_, parameter).zero_();
  }
  weight_gradient_.narrow(0, end, table_->elements - end).zero_();
}

void FlatBucket::restart_weight_gradient() {
  for (Run& run : runs_) run.weight.restart_gradient();
}

void FlatBucket::end_weight_gradient() {
  weight_gradient_ = Tensor();
  point_gradients();
}

void FlatBucket::add_to_shard_gradient(const Tensor& part) {
  if (shard_gradient_.defined())
    shard_gradient_.add_(part);
  else
    shard_gradient_ = part.to(to_torch(table_->storage));
}

void FlatBucket::end_shard_gradient(bool keep) {
  if (keep) kept_gradient_ = shard_gradient_;
  shard_gradient_ = Tensor();
}

Weight& find_weight(std::span<FlatBucket> buckets, std::span<const std::string> names) {
  for (FlatBucket& bucket : buckets)
    for (const auto& parameter : bucket.table().parameters)
      if (parameter.name == names.front()) return bucket.weight(names);
  throw Bug(cat("no bucket holds ", names.front()));
}

}  // namespace tessera::shard
