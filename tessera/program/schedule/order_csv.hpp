// An order as CSV, as people write it by hand and exchange it with PyTorch. A row per rank, a cell per task
// (2F0, 2B0, or its halves 2I0 and 2W0); blank cells are idle and carry no meaning. The format of PyTorch's
// compute-only schedule files.
#pragma once

#include <string>
#include <string_view>

#include "tessera/program/schedule/order.hpp"

namespace tessera::program {

// Stages, their ranks and the micro-batches are those of the cells. Every stage must run every micro-batch
// forward and backward once, in an order that ends; throws UserError naming row and column. PyTorch's pairs,
// (4F1;3B0)OVERLAP_F_B, are read as one task after the other.
Order parse_order_csv(std::string_view text);

// Without blank cells; parse_order_csv gives the order back.
std::string to_csv(const Order& order);

}  // namespace tessera::program
