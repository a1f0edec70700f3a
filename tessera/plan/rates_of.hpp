// The rates by which a run is priced that nobody has measured.
#pragma once

#include "tessera/program/ir/types.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// The assumed ones, with the FLOP/s of a device and the speed of its link that the run file tells.
simulate::Rates rates_of(const spec::Run& run);

// A step of the run's program, simulated at these rates.
double step_seconds(const spec::Run& run, const program::Program& program);

}  // namespace tessera::plan
