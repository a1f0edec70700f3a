// What a rank holds of a bucket: flat buffers that come and go as the program says. Its slice of the master
// values and of their gradient, the whole of the values to compute with, and the whole of the gradient while
// it is added up.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/program/ir/tables.hpp"
#include "tessera/shard/weight.hpp"

namespace tessera::shard {

at::ScalarType to_torch(program::Dtype dtype);

// One parameter in the whole flat of its bucket.
tensor::Tensor parameter_in(const tensor::Tensor& flat, const program::Parameter& parameter);

// The elements of a tensor in a box; of a box with more dims before `first_dim`, without these.
tensor::Tensor in_box(tensor::Tensor t, const Box& box, std::size_t first_dim = 0);

// Invariants: parameters lie at the offsets of the table; Full is Shard itself when the bucket is resident in
// its storage dtype; the padding at the end stays zero in every buffer; a buffer that is not there is an
// undefined tensor and holds no memory.
class FlatBucket {
 public:
  // Draws this rank's slice of its part of the initial values: a function of (seed, parameter name, global
  // index), the same on every device and for every cut. has_shard = false: others hold such slices of it.
  FlatBucket(const program::Bucket& table, std::uint64_t seed, Slice slice = {}, at::Device device = at::kCPU,
             Slice part = {}, bool has_shard = true);
  FlatBucket(FlatBucket&&) = default;

  const program::Bucket& table() const { return *table_; }
  bool has_shard() const { return has_shard_; }
  const Slice& slice() const { return slice_; }  // of the flat; without a shard, of those that have one
  const Slice& part() const { return part_; }    // of every parameter, where the bucket is cut
  at::Device device() const { return device_; }
  std::int64_t shard_elements() const { return table_->elements / slice_.count; }

  const tensor::Tensor& shard() const { return shard_; }
  const tensor::Tensor& full() const { return full_; }
  const tensor::Tensor& weight_gradient() const { return weight_gradient_; }
  const tensor::Tensor& shard_gradient() const { return shard_gradient_; }
  // ShardGrad of the last step, if it was kept.
  const tensor::Tensor& kept_gradient() const { return kept_gradient_; }

  // Parameters that lie side by side, as one [sum of rows, columns] weight; the same names give the same
  // weight, so a tied table is one. Throws Bug when they don't lie side by side.
  Weight& weight(std::span<const std::string> names);
  Weight& weight(const std::string& name) { return weight(std::span(&name, 1)); }

  // Takes over what lies in this rank's slice of the values of its part of a parameter.
  void fill(const program::Parameter& parameter, const tensor::Tensor& values);
  // Shard leaves memory (an undefined tensor) and comes back.
  void set_shard(tensor::Tensor shard);

  // Makes Full, with this rank's slice in its place; the rest is the caller's to gather. It lies in `memory`,
  // a flat of its size and dtype, if that is defined.
  void begin_full(tensor::Tensor memory = {});
  // The same, for the caller to keep.
  tensor::Tensor begun_whole(tensor::Tensor memory = {}) const;
  // Takes over a whole that was set aside.
  void set_full(tensor::Tensor full);
  void end_full();
  // Weights are those of another whole from here on, which is kept by the caller.
  void point_at(const tensor::Tensor& whole);
  // This rank's slice of a whole flat.
  tensor::Tensor slice_of(const tensor::Tensor& whole) const;

  // Makes WeightGrad, in the same way, if it is not there.
  void begin_weight_gradient(tensor::Tensor memory = {});
  // Zero where no micro-batch has added, so that it can be reduced.
  void close_weight_gradient();
  // What was added is taken: the next add overwrites.
  void restart_weight_gradient();
  void end_weight_gradient();

  // ShardGrad += part; the first part becomes ShardGrad, without a copy if it has the storage dtype.
  void add_to_shard_gradient(const tensor::Tensor& part);
  void end_shard_gradient(bool keep);

 private:
  struct Run {  // a weight, and where it lies
    std::string first_name;
    std::int64_t offset = 0, elements = 0;
    tensor::Shape shape;
    Weight weight;
  };
  void draw(std::uint64_t seed);
  void point_gradients();

  const program::Bucket* table_;
  Slice slice_, part_;
  bool has_shard_;
  at::Device device_;
  tensor::Tensor shard_, full_, weight_gradient_, shard_gradient_, kept_gradient_;
  std::vector<bool> has_weight_;  // by parameter
  std::deque<Run> runs_;          // a deque keeps addresses
};

// The weight of these parameters, wherever the tables put them.
Weight& find_weight(std::span<FlatBucket> buckets, std::span<const std::string> names);
inline Weight& find_weight(std::span<FlatBucket> buckets, const std::string& name) {
  return find_weight(buckets, std::span(&name, 1));
}

}  // namespace tessera::shard
