// The closed form of a step's time on a described device, in microseconds of ours per layout.
#pragma once

#include "tessera/planner/constants.hpp"
#include "tessera/planner/device.hpp"
#include "tessera/planner/workload.hpp"

namespace tessera::planner {

// How devices hang together.
struct Network {
  double node_devices = 8;
  double link_gbps = 0, network_gbps = 0;  // of one device, in its node and out of it
  double pod_devices = 0, pod_gbps = 0;    // beyond so many devices; 0: no such level
  double half_bytes = 20e6;                // of a collective across nodes that reaches half of its rate
  double bytes_per_node = 13e6;            // of a reduction, that each further node costs
  bool operator==(const Network&) const = default;
};
Network network_of(const Device& device);

inline constexpr double kHostBytesPerSecond = 25e9;  // of a device, over its host's bus

// Seconds of a step.
struct Estimate {
  double products = 0, attention = 0, elementwise = 0, head = 0,
         recompute = 0;                         // compute of the fullest stage
  double tensor = 0, context = 0, experts = 0;  // collectives within blocks
  double bubble = 0, sends = 0;                 // of the pipeline
  double data = 0;                              // reductions and gathers that nothing hides
  double optimizer = 0, fixed = 0;
  double step = 0;  // all of it
  bool operator==(const Estimate&) const = default;
};

// Note [The closed form]
// - Products: 2 M N K over the peak rate, less what tiles of 128 x 128 leave idle in their last wave, less
//   what a short inner dimension costs; 0.72 of the peak otherwise, which large products reach on A100 and
//   H100.
// - Attention: flash kernels at 0.38 to 0.55 of the peak over the causal half; the backward costs 2.9 times
//   that. Without flash kernels: the whole square, with nine passes over the scores through memory. Heads
//   whose channels are not a multiple of 8 miss the tensor cores.
// - Element-wise work: bytes over 0.75 of the memory's rate.
// - A block takes at least as long as its kernels take to be issued.
// - Collectives: ring volumes over 0.78 of the link in a node, less for small messages. Across nodes each
//   member of the node uses its own network card, and small messages cost more the more nodes there are
//   (13 MB for each node, fitted to the published curves over size and scale).
// - Pipelines: all micro-batches at the pace of the slowest stage, plus the bubble of the schedule.
// - An optimizer's state in host memory is copied both ways once a step, next to its computation.
// - What is not known of a software stack is a factor of `constants`.
Estimate estimate(const Workload& work, const Device& device, const Network& network,
                  const Constants& constants = {});

}  // namespace tessera::planner
