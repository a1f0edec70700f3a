#include "tessera/parallel/blocks/traveling_blocks.hpp"

#include "tessera/base/error.hpp"

namespace tessera::parallel {
namespace {

constexpr int kTag = 0;  // what travels between two members arrives in order

Tensor like(const Tensor& block) { return tensor::empty(block.sizes(), block.scalar_type(), block.device()); }

}  // namespace

Tensor stacked(const Tensor& block, const collective::Group& group) {
  if (group.size() == 1) return block.unsqueeze(0);
  tensor::Shape shape = block.sizes().vec();
  shape.insert(shape.begin(), group.size());
  Tensor out = tensor::empty(shape, block.scalar_type(), block.device());
  group.all_gather(out, block.contiguous());
  return out;
}

Tensor scattered(const Tensor& stack, const collective::Group& group) {
  if (group.size() == 1) return stack.squeeze(0);
  Tensor out = like(stack[0]);
  group.reduce_scatter_sum(out, stack);
  return out;
}

IncomingBlocks::IncomingBlocks(Tensor own, const collective::Group& group, int skew, bool at_once)
    : own_(own.contiguous()), steps_(group, skew) {
  if (at_once)
    all_ = stacked(own_, group);
  else
    begin();
}

void IncomingBlocks::begin() {
  const int hop = steps_.hop(step_);
  if (hop == 0) return;
  arriving_ = like(own_);
  wait_ = steps_.group().shift(own_, steps_.rank_after(-hop), arriving_, steps_.rank_after(hop), kTag);
}

Tensor IncomingBlocks::take() {
  TESSERA_CHECK(step_ < steps_.size(), "no block is left of ", steps_.size());
  const int hop = steps_.hop(step_++);
  if (all_.defined()) return all_[steps_.rank_after(hop)];
  Tensor out = own_;
  if (hop != 0) {
    wait_();
    out = std::move(arriving_);
  }
  if (step_ < steps_.size()) begin();
  return out;
}

OutgoingSums::OutgoingSums(const collective::Group& group, int skew, bool at_once)
    : steps_(group, skew), at_once_(at_once && group.size() > 1) {}

void OutgoingSums::add(const Tensor& block) {
  if (sum_.defined())
    sum_.add_(block);
  else
    sum_ = block;
}

void OutgoingSums::receive() {
  if (!arriving_.defined()) return;
  wait_();
  add(arriving_);
  arriving_ = Tensor();
}

void OutgoingSums::give(const Tensor& block) {
  const int hop = steps_.hop(step_++);
  if (at_once_) {
    if (!all_.defined()) {
      tensor::Shape shape = block.sizes().vec();
      shape.insert(shape.begin(), steps_.size());
      all_ = tensor::empty(shape, block.scalar_type(), block.device());
    }
    all_[steps_.rank_after(hop)].copy_(block);
    return;
  }
  receive();
  if (hop == 0) return add(block);
  arriving_ = like(block);
  wait_ = steps_.group().shift(block, steps_.rank_after(hop), arriving_, steps_.rank_after(-hop), kTag);
}

Tensor OutgoingSums::sum() {
  TESSERA_CHECK(step_ == steps_.size(), step_, " of ", steps_.size(), " blocks were given");
  if (at_once_) return scattered(all_, steps_.group());
  receive();
  return sum_;
}

}  // namespace tessera::parallel
