// What does a person want to know after each step? One line that says all of it.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::metrics {

struct StepFacts {
  std::int64_t step = 0;  // counted from 1
  std::int64_t steps = 0;
  double loss = 0;
  double tokens_per_second = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double step_seconds = 0;
  double left_seconds = 0;
  bool taken = true;  // false: loss or norm not finite, so the parameters stayed
};

// step  7/100  loss 3.4012  norm 0.913  lr 1.00e-03  12.3k tokens/s  0.333 s  1m35s left
std::string step_line(const StepFacts& facts);

}  // namespace tessera::metrics
