#include "tessera/base/text.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/ir/hazards.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::program {

void check_order(const Program& program, std::uint32_t rank_class, const Touches& touches,
                 std::vector<Problem>& out) {
  const Sequence& sequence = program.classes[rank_class];
  const auto num_ops = static_cast<std::uint32_t>(sequence.ops.size());
  const LaneNumbers lanes(sequence);
  Hazards hazards(touches, lanes.size());
  Clocks clocks(lanes, num_ops);
  std::vector<Hazard> before;
  for (std::uint32_t at = 0; at < 2 * num_ops && out.size() < kEnoughProblems; ++at) {
    const Op& op = sequence.ops[at % num_ops];
    const bool has_step_before = at >= num_ops;
    const std::uint32_t lap = has_step_before ? num_ops : 0;
    before.clear();
    hazards.touch(at, op, touches.of(at % num_ops), lanes[at % num_ops], before);
    clocks.start(at);
    for (const std::uint32_t wait : sequence.waits_of(op)) {
      if (!(wait & kPreviousStep)) clocks.wait(lap + wait);
      if ((wait & kPreviousStep) && has_step_before) clocks.wait(wait & ~kPreviousStep);
    }
    if (!has_step_before) continue;  // the second lap finds the same, and what the step before leaves open
    for (const Hazard& hazard : before) {
      if (clocks.is_done(hazard.op)) continue;
      out.push_back({rank_class, at % num_ops,
                     cat(named(sequence, at % num_ops, program.tables), " does not wait for ",
                         named(sequence, hazard.op % num_ops, program.tables),
                         hazard.op < num_ops ? " of the step before" : "", ", though both touch ",
                         to_text(touches.cell(hazard.cell), program.tables), " on different lanes")});
      break;
    }
  }
}

}  // namespace tessera::program
