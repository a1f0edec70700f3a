// The ops of one training step, as small values in flat arrays: what is checked, executed, simulated and
// drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/program/ir/op_kind.hpp"
#include "tessera/program/ir/tables.hpp"

namespace tessera::program {

// Something with a lifetime on a rank. Shard and state are durable; all else is dropped when a step unwinds.
enum class CellKind : std::uint8_t {
  value,
  gradient,
  tape,
  weight_work,
  full,
  weight_grad,
  shard,
  shard_grad,
  state,
  number,
  ahead,
};
inline constexpr int kNumCellKinds = 11;

inline constexpr std::int32_t kOfStep = -1;  // as a micro-batch: of the whole step

struct Cell {
  CellKind kind = CellKind::value;
  std::uint32_t item = 0;  // value, segment, bucket or number, by `kind`
  std::int32_t micro = kOfStep;
  auto operator<=>(const Cell&) const = default;
};

// Whether there is one for each micro-batch.
constexpr bool is_of_micro(CellKind kind) { return kind <= CellKind::weight_work; }
// Whether it is what a training run consists of: kept when a step unwinds.
constexpr bool is_durable(CellKind kind) { return kind == CellKind::shard || kind == CellKind::state; }
// Whether it is there from step to step.
inline bool outlives_step(const Cell& cell, const Tables& tables) {
  return is_durable(cell.kind) || cell.kind == CellKind::ahead ||
         (cell.kind == CellKind::full && tables.buckets[cell.item].delayed);
}

enum class LaneKind : std::uint8_t { compute, copy, update, communication };

// Ops of one lane run in issue order, one after the other; lanes run beside each other.
struct Lane {
  LaneKind kind = LaneKind::compute;
  std::uint8_t direction = 0;  // communication: 0 sends and collectives, 1 receives
  std::int16_t axes = -1;      // communication: the axis set
  auto operator<=>(const Lane&) const = default;
};
inline constexpr Lane kCompute{};
// Of forwards that the compute lane runs in the step before theirs: see Note [Forwards ahead].
inline constexpr Lane kAheadLane{LaneKind::compute, 1, -1};
inline constexpr Lane kCopy{LaneKind::copy, 0, -1};
inline constexpr Lane kUpdate{LaneKind::update, 0, -1};  // of optimizer steps, where steps overlap
constexpr Lane communication(std::int16_t axes, std::uint8_t direction = 0) {
  return {LaneKind::communication, direction, axes};
}

// Op::flags. The low four bits are the CellKind of send, receive, exchange, offload, fetch and free.
inline constexpr std::uint16_t kCellKindMask = 0x000f;
inline constexpr std::uint16_t kEndsSource = 0x0010;  // reduce: ends the WeightGrad; send: ends the cell
inline constexpr std::uint16_t kNoTape = 0x0020;      // forward: recomputed later, so it keeps no tape
inline constexpr std::uint16_t kOfShard = 0x0040;     // reduce: sums ShardGrad over Bucket::shared_over
inline constexpr std::uint16_t kUnchanged =
    0x0080;  // offload: the copy outside is still right, nothing is written
inline constexpr std::uint16_t kAhead = 0x0100;  // forward: computes with Ahead; gather: makes it, not Full
// gather and reduce, of a bucket that servers hold: a worker has it whole, a server its slice.
inline constexpr std::uint16_t kOfWorker = 0x0200, kOfServer = 0x0400;
inline constexpr std::uint16_t kSides = kOfWorker | kOfServer;

// Note [Forwards ahead]
// Where weights are one version behind and steps overlap, a pipeline need not run dry at the end of a step:
// the first forwards of the next one compute with weights that are there since the step before. They stand
// first in their own step, on a lane of their own, and wait for an op of the compute lane of the step before;
// behind that one the compute lane runs them, so that it knows but one order. They compute with Ahead, the
// version that Full becomes when the step before is through: step k computes with version k - 1, and while
// its backwards need that in Full, Ahead has version k for the first forwards of step k + 1. Where one queue
// holds all communication of a rank, or the step before was not told that another follows, they run at the
// start of their own step.

struct Op {
  OpKind what = OpKind::forward;
  Lane lane;
  std::uint16_t part = 0;  // slice of a micro-batch; 0 unless a pass splits it
  std::uint32_t item = 0;  // segment, bucket, value or number, by `what`
  std::int32_t micro = kOfStep;
  std::int16_t along = -1;  // axis set it communicates over; -1: stays on this rank
  std::int16_t hop = 0;     // send: receiver's distance along the axis set; receive: sender's
  std::uint32_t cost = 0;   // index into Tables::costs
  std::uint32_t first_wait = 0;
  std::uint16_t num_waits = 0;
  std::uint16_t flags = 0;
  bool operator==(const Op&) const = default;
};
static_assert(sizeof(Op) <= 40);

// In Sequence::waits: the op is meant of the step before (void in the first step).
inline constexpr std::uint32_t kPreviousStep = 0x8000'0000u;

// Ops in issue order. waits: indices of earlier ops; with kPreviousStep any op.
struct Sequence {
  std::vector<Op> ops;
  std::vector<std::uint32_t> waits;
  std::span<const std::uint32_t> waits_of(const Op& op) const {
    return std::span(waits).subspan(op.first_wait, op.num_waits);
  }
  bool operator==(const Sequence&) const = default;
};

// The body of a loop over steps: one Sequence per class of ranks that are equal by symmetry.
struct Program {
  Tables tables;
  std::vector<Sequence> classes;
  bool operator==(const Program&) const = default;
};

// The cell of an op that names one.
constexpr Cell named_cell(const Op& op) {
  return {static_cast<CellKind>(op.flags & kCellKindMask), op.item, op.micro};
}

}  // namespace tessera::program
