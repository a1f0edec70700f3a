// Which earlier ops must an op follow, and which are surely done when it starts? Shared by the builder of
// waits and the checker. Ops are counted over two laps of the loop body, so that waits on the step before are
// seen: op i of lap l is l * num_ops + i.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/program/effects.hpp"

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
  Cell cell;
};

// Remembers who touched each cell last. Only the last reader on each lane counts: lanes are in order.
class Hazards {
 public:
  Hazards(const Tables& tables, std::uint32_t num_lanes);
  // Appends what an op with these effects must follow, then records it.
  void touch(std::uint32_t op, std::uint32_t lane, const Effects& effects, std::vector<Hazard>& out);

 private:
  void read(std::uint32_t op, std::uint32_t lane, const Cell& cell, std::vector<Hazard>& out);
  void write(std::uint32_t op, const Cell& cell, std::vector<Hazard>& out);

  CellIndex index_;
  std::uint32_t num_lanes_;
  std::vector<std::uint32_t> writer_, readers_;  // per cell; per cell and lane
};

// For each op and lane, the last op of that lane that is done when the op starts.
class Clocks {
 public:
  Clocks(const LaneNumbers& lanes, std::uint32_t num_ops);
  // Ops start in order of their count; what came before on its lane is done.
  void start(std::uint32_t op);
  // The op just started also waits for `other` (and for all that was done before it).
  void wait(std::uint32_t other);
  // Whether `other` is done when the op just started starts.
  bool is_done(std::uint32_t other) const;

 private:
  std::uint32_t lane_of(std::uint32_t op) const { return lanes_[op % num_ops_]; }

  const LaneNumbers& lanes_;
  std::uint32_t num_ops_, now_ = 0;
  std::vector<std::uint32_t> done_;     // per op and lane: count + 1; 0: nothing
  std::vector<std::uint32_t> last_on_;  // per lane
};

}  // namespace tessera::program
