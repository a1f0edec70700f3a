#include "tessera/simulate/unroll.hpp"

namespace tessera::simulate {

using program::kPreviousStep;
using program::Op;
using program::Program;
using program::Sequence;

Program unrolled(const Program& program, std::uint32_t steps) {
  Program out{program.tables, {}};
  out.tables.steps_overlap = false;
  for (const Sequence& body : program.classes) {
    Sequence& sequence = out.classes.emplace_back();
    const auto num_ops = static_cast<std::uint32_t>(body.ops.size());
    for (std::uint32_t step = 0; step < steps; ++step)
      for (Op op : body.ops) {
        const auto waits = body.waits_of(op);
        op.first_wait = static_cast<std::uint32_t>(sequence.waits.size());
        for (const std::uint32_t wait : waits) {
          if (!(wait & kPreviousStep)) sequence.waits.push_back(step * num_ops + wait);
          if ((wait & kPreviousStep) && step > 0)
            sequence.waits.push_back((step - 1) * num_ops + (wait & ~kPreviousStep));
        }
        op.num_waits = static_cast<std::uint16_t>(sequence.waits.size() - op.first_wait);
        sequence.ops.push_back(op);
      }
  }
  return out;
}

}  // namespace tessera::simulate
