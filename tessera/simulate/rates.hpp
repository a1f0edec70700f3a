// What would an op cost on a device that was only described? FLOPs, memory traffic and messages over rates.
#pragma once

#include "tessera/program/types.hpp"

namespace tessera::simulate {

struct Rates {
  double flops = 1e12;          // per second, of matrix products
  double memory_bytes = 10e9;   // per second
  double link_bytes = 1e9;      // per second, of a rank's link out and of its link in
  double link_seconds = 50e-6;  // before the first byte of a message arrives
  bool operator==(const Rates&) const = default;
};

// Note [Costs by rates]
// - Compute: FLOPs over flops, plus bytes over memory_bytes; the backward moves twice the forward's bytes. A collective
//   inside a piece is a phase on the link of its axis.
// - Collectives are rings over n ranks: an all-reduce moves 2 (n-1)/n of its bytes through each link, a gather or a
//   reduce-scatter (n-1)/n, all-to-all (n-1)/n; each of its rounds takes link_seconds.
// - A step reads gradient, parameters and state, and writes the last two. Numbers cost link_seconds a round.
program::Cost cost(const program::Op& op, const program::Tables& tables, const Rates& rates);

}  // namespace tessera::simulate
