// Blocks of matrices that go from rank to rank of a group while others are multiplied.
#pragma once

#include <functional>

#include "tessera/collective/group.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

using tensor::Tensor;

// Note [Steps of a product]
// In step s of n a rank multiplies the blocks of number k = rank + skew + s (modulo n) of two groups, where
// the skew in either group is the rank's place in the other: so both mean the same k, and in every step each
// rank sends its block to one other and gets one from another, all links at once. A hop of none is the rank's
// own block. Members of a group leave out the same step. All ranks issue in the order of steps, within a step
// inputs before weights before sums: no two of them can wait for each other.
class BlockOrder {
 public:
  BlockOrder(const collective::Group& group, int skew) : group_(group), skew_(skew) {}
  int size() const { return group_.size(); }
  int hop(int step) const { return (skew_ + step) % size(); }
  int rank_after(int hop) const { return ((group_.rank() + hop) % size() + size()) % size(); }
  const collective::Group& group() const { return group_; }

 private:
  const collective::Group& group_;
  int skew_;
};

// The blocks of all members, one for each step: x_k, then that of the next k.
class IncomingBlocks {
 public:
  // Begins to bring the first. `at_once`: brings all of them now.
  IncomingBlocks(Tensor own, const collective::Group& group, int skew, bool at_once);
  // The block of the next step; begins to bring the one after it.
  Tensor take();

 private:
  void begin();

  Tensor own_, all_, arriving_;
  BlockOrder steps_;
  int step_ = 0;
  std::function<void()> wait_;
};

// Sums of what members make for each other, one block in each step for the member of number k.
class OutgoingSums {
 public:
  OutgoingSums(const collective::Group& group, int skew, bool at_once);
  // Of the next step, in the dtype that is summed in.
  void give(const Tensor& block);
  // This rank's, after the last step.
  Tensor sum();

 private:
  void add(const Tensor& block);
  void receive();

  BlockOrder steps_;
  bool at_once_;
  int step_ = 0;
  Tensor sum_, all_, arriving_;
  std::function<void()> wait_;
};

// The members' equal blocks, [n, rows, columns].
Tensor stacked(const Tensor& block, const collective::Group& group);
// This member's block of the sum of all stacks.
Tensor scattered(const Tensor& stack, const collective::Group& group);

}  // namespace tessera::parallel
