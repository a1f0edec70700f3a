// How long would a unit take? Its pieces priced by FLOPs and bytes at given rates: the predicted costs by which units are
// dealt to stages and orders are searched, until they are measured.
#pragma once

#include "tessera/program/order.hpp"
#include "tessera/program/tables.hpp"

namespace tessera::plan {

// Of one device and of its link to a neighbour.
struct Rates {
  double flops_per_second = 5e10;
  double bytes_per_second = 1e10;
  double link_bytes_per_second = 2e9;
};

// Seconds of one micro-batch: forward, and the halves of the backward. Only a piece that defers weight work has a weight
// half; what isn't a product costs as much in the backward as it moves in the forward.
program::StageCost cost_of(const program::Unit& unit, const Rates& rates = {});

// Seconds of a value between stages.
double transfer_seconds(std::int64_t bytes, const Rates& rates = {});

}  // namespace tessera::plan
