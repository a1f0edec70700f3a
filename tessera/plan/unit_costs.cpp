#include "tessera/plan/unit_costs.hpp"

namespace tessera::plan {

program::StageCost cost_of(const program::Unit& unit, const Rates& rates) {
  program::StageCost out{0, 0, 0};
  for (const program::Piece& piece : unit.pieces) {
    const double moves = static_cast<double>(piece.bytes_read + piece.bytes_written) / rates.bytes_per_second;
    const double backward = piece.backward_flops / rates.flops_per_second;
    const bool has_weights = piece.work_bytes > 0;
    out.forward += piece.flops / rates.flops_per_second + moves;
    out.input += (has_weights ? backward / 2 : backward) + moves;
    if (has_weights) out.weight += backward / 2 + moves;
  }
  return out;
}

double transfer_seconds(std::int64_t bytes, const Rates& rates) {
  return static_cast<double>(bytes) / rates.link_bytes_per_second;
}

}  // namespace tessera::plan
