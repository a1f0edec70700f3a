// The values that a step program is compiled from.
#pragma once

#include <cstdint>

#include "tessera/plan/model/family.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// What a program needs to know of the optimizer.
struct OptimizerPlan {
  std::int64_t states = 2;  // numbers that it keeps per parameter, each as wide as the stored weight
  bool clips_norm = true;   // updates wait for the norm of all gradients
};
OptimizerPlan optimizer_plan(const spec::Training& training);

// The usual rates, with the FLOP/s of a device and the speed of its link if the run file has them.
simulate::Rates rates_of(const spec::Cluster& cluster);

struct StepRequest {
  ModelPlan model;  // under `layout`
  spec::Layout layout;
  std::int64_t num_micro = 1;  // micro-batches of each data-parallel rank
  OptimizerPlan optimizer;
  simulate::Rates rates;  // of the machine that searches price ops on
};

}  // namespace tessera::plan
