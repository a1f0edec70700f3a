#include "tessera/plan/model/step_request.hpp"

namespace tessera::plan {
namespace {

// Copies of the weights that local steps keep: the outer weights, their momentum and, while an exchange is
// under way, what it began with and what was moved.
std::int64_t num_outer(const spec::Training& training) {
  if (training.local_steps == 0) return 0;
  return 1 + (training.outer_optimizer == spec::OuterOptimizer::nesterov ? 1 : 0) +
         (training.outer_delay > 0 ? 2 : 0);
}

std::int64_t num_moments(const spec::Training& training) {
  switch (training.optimizer) {
    case spec::Optimizer::adamw:
      return 2;
    case spec::Optimizer::sgd:
      break;
  }
  return training.momentum > 0 ? 1 : 0;
}

}  // namespace

OptimizerPlan optimizer_plan(const spec::Training& training) {
  return {.states = num_outer(training) + num_moments(training), .clips_norm = training.clip_norm > 0};
}

simulate::Rates rates_of(const spec::Cluster& cluster) {
  simulate::Rates rates;
  if (cluster.peak_tflops > 0) rates.flops = cluster.peak_tflops * 1e12;
  if (cluster.link_mbits > 0) rates.link_bytes = cluster.link_mbits * 1e6 / 8;
  return rates;
}

}  // namespace tessera::plan
