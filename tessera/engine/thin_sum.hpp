// Sums of gradients as products of two thin matrices (PowerSGD), and what they leave out, which is added to
// the next gradient.
#pragma once

#include <vector>

#include "tessera/collective/group.hpp"
#include "tessera/program/ir/tables.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::engine {

// Note [Thin sums]
// Of each rank's matrix M, with the error of the last time added, all ranks sum P = M Q, make its columns
// orthonormal, and sum Q = M^T P; what they go on with is P Q^T. Both sums are linear in M, so all that
// counts is the sum of the ranks' M: errors may be dealt anew among any number of ranks as long as their sum
// stays. The error of a rank is its M less an equal share of P Q^T.
class ThinSum {
 public:
  ThinSum(const program::Bucket& bucket, std::uint64_t seed, at::ScalarType dtype,
          at::Device device = at::kCPU);

  // In place: `whole` becomes the sum over the group, of rank `bucket.rank`.
  void reduce(tensor::Tensor& whole, const collective::Group& group);
  // What was left out: of this rank, its share of the sum over the group. Undefined before the first
  // reduction.
  const tensor::Tensor& error() const { return error_; }
  // Each rank gets an equal share of the sum; all call it.
  void settle(const collective::Group& group);
  // The Q that the next sum begins with, each in the first rows of its parameter: a flat like the bucket's,
  // the rest of it zeros. Equal on all ranks.
  tensor::Tensor directions() const;
  void set_directions(const tensor::Tensor& flat);
  void set_error(tensor::Tensor error) { error_ = std::move(error); }

 private:
  const program::Bucket& bucket_;
  at::ScalarType dtype_;
  at::Device device_;
  tensor::Tensor error_;
  std::vector<tensor::Tensor> q_;  // by parameter that is thin
};

// Makes the columns of P orthonormal, from the first to the last; one that the others span becomes zero.
void orthonormalize(tensor::Tensor& p);

}  // namespace tessera::engine
