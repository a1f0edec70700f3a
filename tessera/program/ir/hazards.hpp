// Finds which earlier ops an op must follow, and which are surely done when it starts. Shared by the builder
// of waits and the checker. Ops are counted over two laps of the loop body, so that waits on the step before
// are seen: op i of lap l is l * num_ops + i.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tessera/program/ir/touches.hpp"

namespace tessera::program {

inline constexpr std::uint32_t kNoOp = 0xffff'ffffu;

// Small numbers for the lanes of a sequence.
class LaneNumbers {
 public:
  explicit LaneNumbers(const Sequence& sequence);
  std::uint32_t operator[](std::uint32_t op) const { return of_op_[op]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(lanes_.size()); }

 private:
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> of_op_;
};

// Two ops touch one cell and one of them writes: `op` must come first.
struct Hazard {
  std::uint32_t op;
  std::uint32_t cell;  // its number in Touches
};

// Remembers who touched each cell last. Only the last reader on each lane counts: lanes are in order.
class Hazards {
 public:
  Hazards(const Touches& touches, std::uint32_t num_lanes);
  // Appends what op `at` of the sequence, counted as `op`, must follow, then records it.
  void touch(std::uint32_t op, const Op& at, std::span<const Touch> touched, std::uint32_t lane,
             std::vector<Hazard>& out);

 private:
  const Touches& touches_;
  std::uint32_t stride_;             // of a cell: its last writer, then its last reader on each lane
  std::vector<std::uint32_t> last_;  // per cell
};

// For each op and lane, the last op of that lane that is done when the op starts.
class Clocks {
 public:
  Clocks(const LaneNumbers& lanes, std::uint32_t num_ops);
  // Ops start in order of their count; what came before on its lane is done.
  void start(std::uint32_t op) {
    now_ = op;
    std::uint32_t& last = last_on_[lane_of(op)];
    if (last != kNoOp) wait(last);
    last = op;
  }
  // The op just started also waits for `other` (and for all that was done before it).
  void wait(std::uint32_t other) {
    std::uint32_t* mine = &done_[std::size_t{now_} * num_lanes_];
    const std::uint32_t* theirs = &done_[std::size_t{other} * num_lanes_];
    for (std::uint32_t lane = 0; lane < num_lanes_; ++lane) mine[lane] = std::max(mine[lane], theirs[lane]);
    mine[lane_of(other)] = std::max(mine[lane_of(other)], other + 1);
  }
  // Whether `other` is done when the op just started starts.
  bool is_done(std::uint32_t other) const {
    return done_[std::size_t{now_} * num_lanes_ + lane_of(other)] > other;
  }

 private:
  std::uint32_t lane_of(std::uint32_t op) const { return lanes_[op < num_ops_ ? op : op - num_ops_]; }

  const LaneNumbers& lanes_;
  std::uint32_t num_ops_, num_lanes_, now_ = 0;
  std::vector<std::uint32_t> done_;     // per op and lane: count + 1; 0: nothing
  std::vector<std::uint32_t> last_on_;  // per lane
};

}  // namespace tessera::program
