#include "tessera/simulate/simulate.hpp"

#include <algorithm>

#include "tessera/simulate/from_rest.hpp"
#include "tessera/simulate/unroll.hpp"

namespace tessera::simulate {
namespace {

constexpr std::uint32_t kSettled = 2;  // steps after which one is like the next

// A step in the middle of a run, from where its first op computes to where the next one's does.
Timeline in_the_middle(const program::Program& program, const OpCosts& costs, Queues queues) {
  const std::uint32_t steps = kSettled + 2;
  const program::Program all = unrolled(program, steps);
  const Timeline found = from_rest(all, repeated(costs, steps), queues);
  const auto begin_of = [&](std::uint32_t step) {
    double first = found.makespan;
    for (std::size_t c = 0; c < program.classes.size(); ++c) {
      const auto& ops = program.classes[c].ops;
      for (std::size_t at = 0; at < ops.size(); ++at)
        if (program::is_compute(ops[at].what))
          first = std::min(first, found.classes[c][step * ops.size() + at].start);
    }
    return first;
  };
  const double begin = begin_of(kSettled);
  Timeline out{.makespan = begin_of(kSettled + 1) - begin};
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const std::size_t num_ops = program.classes[c].ops.size();
    auto& spans = out.classes.emplace_back();
    for (std::size_t at = 0; at < num_ops; ++at) {
      const program::Span& span = found.classes[c][kSettled * num_ops + at];
      spans.push_back({span.start - begin, span.end - begin});
    }
  }
  return out;
}

}  // namespace

Timeline simulate(const program::Program& program, const OpCosts& costs, Queues queues) {
  return program.tables.steps_overlap ? in_the_middle(program, costs, queues)
                                      : from_rest(program, costs, queues);
}

}  // namespace tessera::simulate
