#include "tessera/program/passes/holdings.hpp"

namespace tessera::program {

Holdings holdings(const Sequence& sequence, const Tables& tables) {
  Holdings out{std::vector<bool>(tables.segments.size(), false),
               std::vector<bool>(tables.units.size(), false),
               std::vector<bool>(tables.buckets.size(), false)};
  for (const Op& op : sequence.ops) {
    if (is_compute(op.what)) out.segments[op.item] = true;
    if (op.flags & kOfServer) out.buckets[op.item] = true;
  }
  for (std::size_t segment = 0; segment < out.segments.size(); ++segment) {
    if (!out.segments[segment]) continue;
    out.units[tables.segments[segment].unit] = true;
    for (const std::uint32_t bucket : tables.segments[segment].buckets) out.buckets[bucket] = true;
  }
  return out;
}

}  // namespace tessera::program
