#include "tessera/planner/search/rates_for.hpp"

#include <algorithm>

namespace tessera::planner {
namespace {

simulate::Rates::Link link_of(const program::AxisSet& set, const program::Tables& tables,
                              const Network& network) {
  double stride = 1, size = 1;
  for (const std::int16_t axis : set.axes)
    size *= static_cast<double>(tables.axes[static_cast<std::size_t>(axis)].size);
  const auto innermost =
      set.axes.empty() ? tables.axes.size() : static_cast<std::size_t>(*std::ranges::max_element(set.axes));
  for (std::size_t i = innermost + 1; i < tables.axes.size(); ++i)
    stride *= static_cast<double>(tables.axes[i].size);
  return link_over(size, stride, network);
}

}  // namespace

Forwards forward_of(const program::Unit& unit) {
  Forwards out;
  for (const program::Piece& piece : unit.pieces) {
    out.flops += piece.flops;
    out.moved += static_cast<double>(piece.bytes_read + piece.bytes_written);
  }
  return out;
}

Forwards forward_of_blocks(const program::Tables& tables) {
  Forwards out;
  for (const program::Unit& unit : tables.units) {
    if (!unit.name.starts_with("block")) continue;
    const Forwards one = forward_of(unit);
    out.flops += one.flops, out.moved += one.moved;
  }
  return out;
}

simulate::Rates::Link link_over(double ranks, double stride, const Network& network) {
  constexpr double kNodeSeconds = 8e-6, kNetworkSeconds = 25e-6;  // before the first byte arrives
  const double in_node = network.link_gbps * 1e9 * 0.75;
  if (ranks * stride <= network.node_devices) return {in_node, kNodeSeconds};
  const double members = std::max(1.0, network.node_devices / stride);
  return {std::min(in_node, network.network_gbps * 1e9 * 0.8 * members), kNetworkSeconds};
}

simulate::Rates rates_for(const Candidate& candidate, const Cluster& cluster, const Constants& constants,
                          const program::Tables& tables, const Forwards& blocks) {
  simulate::Rates out;
  const Device& device = cluster.slowest().device;
  out.memory_bytes = device.memory_gbps * 1e9 * 0.75 * constants.memory;
  out.host_bytes = std::min(kHostBytesPerSecond, out.memory_bytes);
  out.trees = device.multiprocessors > 1;
  const Estimate& e = candidate.estimate;
  // All three passes of one micro-batch over the blocks of one stage; a forward is a third. A block takes at
  // least as long as its kernels take to be issued.
  const double issued = candidate.work.layers * device.issue_seconds * constants.launch * (1 + 1 / 0.7);
  const double computed = (e.products + e.attention + e.elementwise) / candidate.work.micro_batches() *
                          candidate.work.pp * candidate.work.slowest_share;
  const double compute = std::max(computed, issued);
  const double beside_memory = std::max(compute - 3 * blocks.moved / out.memory_bytes, 0.2 * compute);
  out.flops = 3 * blocks.flops / beside_memory;
  for (const program::AxisSet& set : tables.axis_sets)
    out.links.push_back(link_of(set, tables, cluster.network));
  return out;
}

simulate::Rates rates_for(const Candidate& candidate, const Cluster& cluster, const Constants& constants,
                          const program::Tables& tables) {
  return rates_for(candidate, cluster, constants, tables, forward_of_blocks(tables));
}

}  // namespace tessera::planner
