// The line that is printed after each step.
#pragma once

#include <string>

#include "tessera/metrics/step_facts.hpp"

namespace tessera::metrics {

// step  7/100  loss 3.4012  norm 0.913  lr 1.00e-03  12.3k tokens/s  0.333 s  1m35s left
std::string step_line(const StepFacts& facts);

}  // namespace tessera::metrics
