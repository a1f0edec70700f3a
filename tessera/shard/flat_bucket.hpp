// What does a rank hold of a bucket? Its flat buffers: master values, the copy to compute with, and the
// gradient.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/program/tables.hpp"
#include "tessera/shard/weight.hpp"

namespace tessera::shard {

at::ScalarType to_torch(program::Dtype dtype);

// Invariants: parameters lie at the offsets of the table; `full` is `shard` itself when the bucket is
// resident in its storage dtype; the padding at the end stays zero in every buffer.
class FlatBucket {
 public:
  // Draws initial values as a function of (seed, parameter name, global index), the same on every device.
  FlatBucket(const program::Bucket& table, std::uint64_t seed, at::Device device = at::kCPU);
  FlatBucket(FlatBucket&&) = default;

  const program::Bucket& table() const { return *table_; }
  const tensor::Tensor& shard() const { return shard_; }
  const tensor::Tensor& gradient() const { return gradient_; }

  // Parameters that lie side by side, as one [sum of rows, columns] weight; the same names give the same
  // weight, so a tied table is one. Throws Bug when they don't lie side by side.
  Weight& weight(std::span<const std::string> names);
  Weight& weight(const std::string& name) { return weight(std::span(&name, 1)); }

  // Views of one parameter: its master values and its gradient.
  tensor::Tensor value_of(const program::Parameter& parameter) const;
  tensor::Tensor gradient_of(const program::Parameter& parameter) const;

  // Makes Full of the current Shard (a cast while nothing is sharded).
  void gather();
  // Before a step's first backward, and before its reduction.
  void begin_step();
  void end_gradient();

 private:
  tensor::Tensor run_of(const tensor::Tensor& flat, const program::Parameter& first, std::int64_t rows) const;

  const program::Bucket* table_;
  tensor::Tensor shard_, full_, gradient_;
  std::vector<bool> has_weight_;                        // by parameter
  std::deque<std::pair<std::string, Weight>> weights_;  // by the first name; a deque keeps addresses
};

// The weight of these parameters, wherever the tables put them.
Weight& find_weight(std::span<FlatBucket> buckets, std::span<const std::string> names);
inline Weight& find_weight(std::span<FlatBucket> buckets, const std::string& name) {
  return find_weight(buckets, std::span(&name, 1));
}

}  // namespace tessera::shard
