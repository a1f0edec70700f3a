// Prices an op on a device that was only described: FLOPs, memory traffic and messages over rates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/program/schedule/order.hpp"
#include "tessera/simulate/costs.hpp"

namespace tessera::simulate {

// Of one device and of its link to a neighbour. The defaults are those of a core that nobody measured: good
// enough to deal units to stages, not to tell seconds.
struct Rates {
  double flops = 5e10;          // per second, of matrix products
  double memory_bytes = 1e10;   // per second
  double link_bytes = 2e9;      // per second, of a rank's link out and of its link in
  double link_seconds = 50e-6;  // before the first byte of a message arrives
  double host_bytes = 1e10;     // per second, to and from what is offloaded
  bool trees = false;           // an all-reduce of few bytes goes up and down a tree, as NCCL's does
  // By axis set of the program, where they are not alike; empty: as above.
  struct Link {
    double bytes = 2e9, seconds = 50e-6;
    bool operator==(const Link&) const = default;
  };
  std::vector<Link> links;
  Link link(std::int16_t axis_set) const {
    return links.empty() ? Link{link_bytes, link_seconds} : links[static_cast<std::size_t>(axis_set)];
  }
  bool operator==(const Rates&) const = default;
};

// Note [Costs by rates]
// - Compute: FLOPs over flops, plus bytes over memory_bytes. Only a piece that defers weight work has a
//   weight half, which is half of its backward's FLOPs; each half of a backward moves as many bytes as the
//   forward. A collective inside a piece is a phase on the link of its axis.
// - Collectives are rings over n ranks: an all-reduce moves 2 (n-1)/n of its bytes through each link; a
//   gather, a reduce-scatter or an all-to-all moves (n-1)/n. Each round takes link_seconds. With trees an
//   all-reduce takes the shorter of that and 2 log2(n) rounds with twice its bytes through each link.
// - A step reads gradient, parameters and state, and writes the last two. Numbers cost link_seconds a round.
// What is
//   offloaded or fetched takes its bytes over host_bytes.
program::Cost cost(const program::Op& op, const program::Tables& tables, const Rates& rates);

// Of all ops of a program.
OpCosts costs_at(const Rates& rates, const program::Program& program);

// Of one micro-batch, collectives inside not counted.
program::StageCost cost(const program::Unit& unit, const Rates& rates);

// Seconds of recomputing a segment's pieces for one micro-batch, collectives not counted.
double recompute_seconds(std::span<const program::Piece> pieces, const Rates& rates);

// Seconds of a value between two ranks.
double transfer_seconds(double bytes, const Rates& rates);

}  // namespace tessera::simulate
