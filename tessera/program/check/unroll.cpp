#include "tessera/program/check/unroll.hpp"

#include <algorithm>

#include "tessera/program/ir/waits.hpp"

namespace tessera::program {
namespace {

struct Numbered {
  std::uint32_t step = 0, op = 0;
};

std::vector<Numbered> in_order(const Sequence& body, std::uint32_t steps, bool ahead) {
  std::vector<Numbered> out;
  const std::vector<Follower> steady = steady_order(body);
  for (std::uint32_t step = 0; step < steps; ++step) {
    if (!ahead || step == 0)
      for (std::uint32_t at = 0; at < body.ops.size(); ++at)
        if (!ahead || body.ops[at].lane == kAheadLane) out.push_back({step, at});
    if (!ahead) continue;
    for (const Follower& follower : steady) {
      const bool is_first =
          step == 0 && body.ops[follower.op].lane == kAheadLane && !follower.is_of_next_step;
      if (!is_first && step + (follower.is_of_next_step ? 1 : 0) < steps)
        out.push_back({step + (follower.is_of_next_step ? 1 : 0), follower.op});
    }
  }
  return out;
}

}  // namespace

Steps unrolled(const Program& program, std::uint32_t steps, bool ahead) {
  Steps out{{program.tables, {}}, {}};
  out.program.tables.steps_overlap = false;
  for (const Sequence& body : program.classes) {
    Sequence& sequence = out.program.classes.emplace_back();
    const auto num_ops = static_cast<std::uint32_t>(body.ops.size());
    const std::vector<Numbered> order = in_order(body, steps, ahead);
    auto& place = out.place.emplace_back(order.size());
    for (std::uint32_t at = 0; at < order.size(); ++at) place[order[at].step * num_ops + order[at].op] = at;
    for (const auto& [step, number] : order) {
      Op op = body.ops[number];
      const auto waits = body.waits_of(op);
      op.first_wait = static_cast<std::uint32_t>(sequence.waits.size());
      for (const std::uint32_t wait : waits) {
        const bool is_of_before = wait & kPreviousStep;
        if (!is_of_before || step > 0)
          sequence.waits.push_back(
              place[(step - (is_of_before ? 1 : 0)) * num_ops + (wait & ~kPreviousStep)]);
      }
      op.num_waits = static_cast<std::uint16_t>(sequence.waits.size() - op.first_wait);
      if (op.lane == kAheadLane) op.lane = kCompute;
      sequence.ops.push_back(op);
    }
  }
  return out;
}

}  // namespace tessera::program
