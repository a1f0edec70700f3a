// Makes an order faster by moving tasks of the critical path within their ranks.
#pragma once

#include "tessera/program/schedule/order.hpp"

namespace tessera::program {

struct Effort {
  std::int64_t limit;   // activations of a stage that any rank may hold
  double good_enough;   // stop when the makespan is no longer
  std::int64_t rounds;  // changes tried
};

// The order with whole backwards split. Never slower without transfers' time.
Order split_backwards(const Order& order);

// The fastest order met while changing this one, whose backwards are split and which is within the limit.
// Transfers take their time but never wait for each other here.
Order improved(const Order& order, const Costs& costs, const Effort& effort);

}  // namespace tessera::program
