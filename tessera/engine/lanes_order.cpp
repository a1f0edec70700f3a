// Orders that lanes keep besides their own: the compute lane that of forwards ahead, and all lanes of an
// accelerator that of one queue.
#include <algorithm>

#include "tessera/engine/lanes.hpp"
#include "tessera/program/ir/calls.hpp"
#include "tessera/program/ir/waits.hpp"

namespace tessera::engine {

// Note [One queue on a device]
// NCCL wants all ranks to issue what they have in common in orders that fit each other, and one caller of a
// communicator at a time. The checker proves a program for the order in which it stands, all communication of
// a rank in one queue, that of ops that compute and call others meanwhile, too; lanes as free as on a CPU
// would issue it in another. So an op that communicates waits until the one before it, on whichever lane, has
// been issued. That is cheap: issuing does not wait for the kernels.
void Lanes::queue_communication() {
  std::vector<std::uint32_t> queued;
  for (std::uint32_t i = 0; i < sequence_.ops.size(); ++i)
    if (program::is_queued(sequence_.ops[i], tables_)) queued.push_back(i);
  queue_before_.assign(sequence_.ops.size(), kNobody);
  for (std::size_t i = 0; i < queued.size(); ++i)
    queue_before_[queued[i]] = i > 0 ? queued[i - 1] : queued.back() | program::kPreviousStep;
}

void Lanes::order_compute() {
  for (const program::Follower& follower : program::steady_order(sequence_)) {
    const program::Lane lane = sequence_.ops[follower.op].lane;
    if (lane == program::kCompute || follower.is_of_next_step) compute_order_.push_back(follower);
    if (lane == program::kAheadLane) ahead_.push_back(follower.op);
  }
}

void Lanes::run_compute_lane(std::uint64_t step, bool is_followed) {
  const auto is_left = [&](std::uint32_t op) { return done_[op].load() < step; };
  // They point weights at another version: a gather of the step before that is under way must not do so too.
  if (step > 1 && std::ranges::any_of(ahead_, is_left))
    for (std::uint32_t i = 0; i < sequence_.ops.size(); ++i)
      if (sequence_.ops[i].what == program::OpKind::gather) wait_for(i, step - 1);
  for (const std::uint32_t op : ahead_)
    if (is_left(op)) run_op(0, op, step);
  for (const auto& [op, is_of_next_step] : compute_order_)
    if (!is_of_next_step || is_followed) run_op(0, op, step + (is_of_next_step ? 1 : 0));
}

}  // namespace tessera::engine
