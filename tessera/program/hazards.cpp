#include "tessera/program/hazards.hpp"

#include <algorithm>

namespace tessera::program {

LaneNumbers::LaneNumbers(const Sequence& sequence) {
  of_op_.reserve(sequence.ops.size());
  for (const Op& op : sequence.ops) {
    const auto found = std::find(lanes_.begin(), lanes_.end(), op.lane);
    of_op_.push_back(static_cast<std::uint32_t>(found - lanes_.begin()));
    if (found == lanes_.end()) lanes_.push_back(op.lane);
  }
}

Hazards::Hazards(const Tables& tables, std::uint32_t num_lanes)
    : index_(tables),
      num_lanes_(num_lanes),
      writer_(index_.size(), kNoOp),
      readers_(std::size_t{index_.size()} * num_lanes, kNoOp) {}

void Hazards::touch(std::uint32_t op, std::uint32_t lane, const Effects& effects, std::vector<Hazard>& out) {
  for (const Cell& cell : effects.reads) read(op, lane, cell, out);
  for (const auto* list : {&effects.makes, &effects.adds, &effects.ends, &effects.leaves, &effects.returns})
    for (const Cell& cell : *list) write(op, cell, out);
}

void Hazards::read(std::uint32_t op, std::uint32_t lane, const Cell& cell, std::vector<Hazard>& out) {
  const std::uint32_t at = index_(cell);
  if (writer_[at] != kNoOp && writer_[at] != op) out.push_back({writer_[at], cell});
  readers_[std::size_t{at} * num_lanes_ + lane] = op;
}

void Hazards::write(std::uint32_t op, const Cell& cell, std::vector<Hazard>& out) {
  const std::uint32_t at = index_(cell);
  if (writer_[at] != kNoOp && writer_[at] != op) out.push_back({writer_[at], cell});
  writer_[at] = op;
  for (std::uint32_t lane = 0; lane < num_lanes_; ++lane) {
    std::uint32_t& reader = readers_[std::size_t{at} * num_lanes_ + lane];
    if (reader != kNoOp && reader != op) out.push_back({reader, cell});
    reader = kNoOp;
  }
}

Clocks::Clocks(const LaneNumbers& lanes, std::uint32_t num_ops)
    : lanes_(lanes),
      num_ops_(num_ops),
      done_(std::size_t{2} * num_ops * lanes.size(), 0),
      last_on_(lanes.size(), kNoOp) {}

void Clocks::start(std::uint32_t op) {
  now_ = op;
  std::uint32_t& last = last_on_[lane_of(op)];
  if (last != kNoOp) wait(last);
  last = op;
}

void Clocks::wait(std::uint32_t other) {
  const std::uint32_t num_lanes = lanes_.size();
  std::uint32_t* mine = &done_[std::size_t{now_} * num_lanes];
  const std::uint32_t* theirs = &done_[std::size_t{other} * num_lanes];
  for (std::uint32_t lane = 0; lane < num_lanes; ++lane) mine[lane] = std::max(mine[lane], theirs[lane]);
  mine[lane_of(other)] = std::max(mine[lane_of(other)], other + 1);
}

bool Clocks::is_done(std::uint32_t other) const {
  return done_[std::size_t{now_} * lanes_.size() + lane_of(other)] > other;
}

}  // namespace tessera::program
