#include "tessera/simulate/simulate.hpp"

#include <algorithm>

#include "tessera/program/check/unroll.hpp"
#include "tessera/simulate/from_rest.hpp"

namespace tessera::simulate {
namespace {

constexpr std::uint32_t kSettled = 2;  // steps after which one is like the next

// A step in the middle of a run, from where its first op computes to where the next one's does.
Timeline in_the_middle(const program::Program& program, const OpCosts& costs, Queues queues) {
  const std::uint32_t steps = kSettled + 2;
  const program::Steps all = program::unrolled(program, steps, queues == Queues::one_per_lane);
  const Timeline found = from_rest(all.program, repeated(costs, all), queues);
  const auto span_of = [&](std::size_t c, std::uint32_t step, std::size_t at) {
    return found.classes[c][all.place[c][step * program.classes[c].ops.size() + at]];
  };
  const auto begin_of = [&](std::uint32_t step) {
    double first = found.makespan;
    for (std::size_t c = 0; c < program.classes.size(); ++c) {
      const auto& ops = program.classes[c].ops;
      for (std::size_t at = 0; at < ops.size(); ++at)
        if (program::is_compute(ops[at].what)) first = std::min(first, span_of(c, step, at).start);
    }
    return first;
  };
  const double begin = begin_of(kSettled);
  Timeline out{.makespan = begin_of(kSettled + 1) - begin};
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const std::size_t num_ops = program.classes[c].ops.size();
    auto& spans = out.classes.emplace_back();
    for (std::size_t at = 0; at < num_ops; ++at) {
      const program::Span span = span_of(c, kSettled, at);
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
