#include "tessera/program/ir/hazards.hpp"

#include <algorithm>

namespace tessera::program {

LaneNumbers::LaneNumbers(const Sequence& sequence) {
  of_op_.reserve(sequence.ops.size());
  std::uint32_t last = 0;  // neighbours are often on one lane
  for (const Op& op : sequence.ops) {
    if (lanes_.empty() || lanes_[last] != op.lane) {
      const auto found = std::find(lanes_.begin(), lanes_.end(), op.lane);
      last = static_cast<std::uint32_t>(found - lanes_.begin());
      if (found == lanes_.end()) lanes_.push_back(op.lane);
    }
    of_op_.push_back(last);
  }
}

Hazards::Hazards(const Touches& touches, std::uint32_t num_lanes)
    : touches_(touches),
      stride_(num_lanes + 1),
      last_(std::size_t{touches.num_cells()} * (num_lanes + 1), kNoOp) {}

void Hazards::touch(std::uint32_t op, const Op& at, std::span<const Touch> touched, std::uint32_t lane,
                    std::vector<Hazard>& out) {
  for (const Touch& touch : touched) {
    const std::uint32_t cell = touches_.number(touch, at);
    std::uint32_t* last = &last_[std::size_t{cell} * stride_];
    if (last[0] != kNoOp && last[0] != op) out.push_back({last[0], cell});
    if (touch.how == How::reads) {
      last[1 + lane] = op;
      continue;
    }
    last[0] = op;
    for (std::uint32_t* reader = last + 1; reader < last + stride_; ++reader) {
      if (*reader != kNoOp && *reader != op) out.push_back({*reader, cell});
      *reader = kNoOp;
    }
  }
}

Clocks::Clocks(const LaneNumbers& lanes, std::uint32_t num_ops)
    : lanes_(lanes),
      num_ops_(num_ops),
      num_lanes_(lanes.size()),
      done_(std::size_t{2} * num_ops * lanes.size(), 0),
      last_on_(lanes.size(), kNoOp) {}

}  // namespace tessera::program
