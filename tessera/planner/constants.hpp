// What the data sheet does not say of a software stack on a device: a few factors, 1 unless they were fitted.
#pragma once

#include <array>

namespace tessera::planner {

struct Constants {
  double gemm = 1, attention = 1, memory = 1, launch = 1, tensor = 1, data = 1, pipeline = 1, scale = 1,
         fixed = 1, fp8 = 1, head = 1, recompute = 1;
  bool operator==(const Constants&) const = default;
};

// One of them: how far from 1 it may lie before anything was measured (of its logarithm), and what it
// multiplies.
struct Knob {
  const char* name;
  double Constants::*value;
  double spread;
  const char* what;
};

inline constexpr std::array<Knob, 12> kKnobs = {{
    {"gemm", &Constants::gemm, .2, "rate of matrix products"},
    {"attention", &Constants::attention, .4, "rate of attention"},
    {"memory", &Constants::memory, .4, "rate of what only moves memory"},
    {"launch", &Constants::launch, .5, "time to issue the kernels of a block"},
    {"tensor", &Constants::tensor, .6, "time of tensor parallelism's collectives"},
    {"data", &Constants::data, .9, "time of data parallelism's collectives that nothing hides"},
    {"pipeline", &Constants::pipeline, .7, "time of sends between stages"},
    {"scale", &Constants::scale, .7, "loss with the number of devices"},
    {"fixed", &Constants::fixed, .7, "time of a step that depends on nothing"},
    {"fp8", &Constants::fp8, .2, "rate of 8-bit products"},
    {"head", &Constants::head, .25, "time of the head and the loss"},
    {"recompute", &Constants::recompute, .15, "time of recomputation"},
}};

}  // namespace tessera::planner
