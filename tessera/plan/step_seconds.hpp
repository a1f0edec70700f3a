// Returns how long a step takes when it is simulated at given rates.
#pragma once

#include "tessera/program/ir/types.hpp"
#include "tessera/simulate/rates.hpp"

namespace tessera::plan {

double step_seconds(const program::Program& program, const simulate::Rates& rates);

}  // namespace tessera::plan
