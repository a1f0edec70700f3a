#include "tessera/metrics/display/step_line.hpp"

#include "tessera/base/text.hpp"

namespace tessera::metrics {

std::string step_line(const StepFacts& facts) {
  const std::string step = cat(facts.step), steps = cat(facts.steps);
  const std::string padding(steps.size() > step.size() ? steps.size() - step.size() : 0, ' ');
  return cat("step ", padding, step, "/", steps, "  loss ", fixed(facts.loss, 4), "  norm ",
             fixed(facts.gradient_norm, 3), "  lr ", scientific(facts.learning_rate, 2), "  ",
             count_text(facts.tokens_per_second()), " tokens/s  ", fixed(facts.step_seconds, 3), " s  ",
             duration_text(facts.left_seconds), " left", facts.taken ? "" : "  not finite: step not taken");
}

}  // namespace tessera::metrics
