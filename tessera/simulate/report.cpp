#include "tessera/simulate/report.hpp"

#include <algorithm>

namespace tessera::simulate {

using program::OpKind;

Report report(const program::Program& program, const Timeline& timeline) {
  Report out{.makespan = timeline.makespan};
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    Report::OfClass& of_class = out.classes.emplace_back();
    of_class.num_ranks = std::ranges::count(program.tables.class_of_rank, c);
    double seconds = 0;
    std::int64_t held = 0;
    const auto& ops = program.classes[c].ops;
    for (std::size_t at = 0; at < ops.size(); ++at) {
      out.step_seconds = std::max(out.step_seconds, timeline.classes[c][at].end);
      if (!program::is_compute(ops[at].what)) continue;
      seconds += timeline.classes[c][at].end - timeline.classes[c][at].start;
      if (ops[at].what == OpKind::forward)
        of_class.peak_activations = std::max(of_class.peak_activations, ++held);
      if (ops[at].what == OpKind::backward || ops[at].what == OpKind::backward_weight) --held;
    }
    if (timeline.makespan > 0) of_class.busy = seconds / timeline.makespan;
  }
  if (program.tables.steps_overlap) out.step_seconds = timeline.makespan;
  double busy = 0;
  std::int64_t num_ranks = 0;
  for (const Report::OfClass& of_class : out.classes) {
    busy += of_class.busy * static_cast<double>(of_class.num_ranks);
    num_ranks += of_class.num_ranks;
  }
  if (timeline.makespan > 0 && num_ranks > 0) out.bubble = 1 - busy / static_cast<double>(num_ranks);
  return out;
}

}  // namespace tessera::simulate
