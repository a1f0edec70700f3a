// A pipeline without a model: each stage one segment with one bucket, one value between two stages. For
// schedules to be checked, simulated and drawn by themselves.
#pragma once

#include "tessera/program/ir/types.hpp"
#include "tessera/program/schedule/order.hpp"

namespace tessera::program {

// The program of an order on such a chain, on an axis pp alone. Its cost classes are those of the costs:
// seconds of the tasks on the compute lane, of a transfer on the link of pp. Throws UserError for an order
// that gets stuck.
Program chain(const Order& order, const Costs& costs);

}  // namespace tessera::program
