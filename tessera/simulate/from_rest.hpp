// The walk of a program with a clock: its ops once, from rest, waits on the step before left out.
#pragma once

#include "tessera/simulate/simulate.hpp"

namespace tessera::simulate {

Timeline from_rest(const program::Program& program, const OpCosts& costs, Queues queues);

}  // namespace tessera::simulate
