#include "tessera/program/memory/memory.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "tessera/program/ir/footprint.hpp"
#include "tessera/program/ir/hazards.hpp"
#include "tessera/program/ir/touches.hpp"
#include "tessera/program/ir/waits.hpp"

namespace tessera::program {
namespace {

// Tokens and targets of all micro-batches, of eight bytes each, are there throughout.
std::int64_t batch_bytes(const Tables& tables, bool has_ahead) {
  constexpr std::int64_t kTokenBytes = 2 * 8;
  if (tables.values.empty() || tables.values.front().channels == 0) return 0;
  const Value& value = tables.values.front();
  // Two that are under way, and one read ahead; with forwards ahead of the next step, that one's besides.
  const std::int64_t steps = has_ahead ? 4 : tables.steps_overlap ? 3 : 1;
  return steps * tables.num_micro *
         (value.token_parts * value.bytes / (value.channels * bytes_of(value.dtype))) * kTokenBytes;
}

constexpr std::uint32_t kMostPieces = 6;  // segments of a block

class Replay {
 public:
  Replay(const Sequence& sequence, const Tables& tables, const Throughout& throughout = {})
      : sequence_(sequence),
        tables_(tables),
        touches_(sequence, tables),
        lanes_(sequence),
        clocks_(lanes_, static_cast<std::uint32_t>(sequence.ops.size())),
        state_(touches_.num_cells()),
        footprints_(tables.segments.size()),
        order_(steady_order(sequence)) {
    const bool has_ahead = std::ranges::any_of(order_, &Follower::is_of_next_step);
    const bool computes = std::ranges::any_of(sequence.ops, [](const Op& op) { return is_compute(op.what); });
    throughout_bytes_ = (computes ? batch_bytes(tables, has_ahead) : 0) + throughout.workspace_bytes;
    if (throughout.slots) {
      throughout_bytes_ += throughout.slots->bytes;
      for (const Slot& slot : throughout.slots->placed) in_slots_.insert(slot.cell);
    }
    add_durable();
    if (tables.steps_overlap) go_through_step_before();
  }

  // The ops in the order in which they come.
  const std::vector<Follower>& order() const { return order_; }

  // Before the op ends anything.
  void begin(std::uint32_t at) {
    const Op& op = sequence_.ops[at];
    if (op.lane != kAheadLane) {
      clocks_.start(first_ + at);
      for (const std::uint32_t wait : sequence_.waits_of(op)) {
        if (!(wait & kPreviousStep)) clocks_.wait(first_ + wait);
        if ((wait & kPreviousStep) && first_ > 0) clocks_.wait(wait & ~kPreviousStep);
      }
    }
    if (op.lane.kind == LaneKind::compute) settle();
    scratch_ = 0;
    if (is_compute(op.what)) return compute(op, at);
    if (reduces_in_place(op)) {
      hand_on(op);
    } else if (op.what == OpKind::reduce && is_live(CellKind::shard_grad, at)) {
      scratch_ = bytes_of({CellKind::shard_grad, op.item, kOfStep}, tables_);  // summed apart, then added
    }
    if (op.flags & kOfServer) scratch_ += tables_.num_workers(tables_.buckets[op.item]) * slice_bytes(op);
    for_touches(
        at, [](How how) { return how == How::makes || how == How::adds || how == How::returns; },
        [&](std::uint32_t number, const Cell& cell, How how) {
          change(number, cell, true);
          if (how == How::returns && !is_durable(cell.kind)) lay_outside(number, cell, false);
        });
  }

  void end(std::uint32_t at) {
    const Op& op = sequence_.ops[at];
    const bool at_once = op.lane.kind == LaneKind::compute;
    for_touches(
        at, [](How how) { return how == How::makes || how == How::adds; },
        [&](std::uint32_t number, const Cell& cell, How) { change(number, cell, true); });
    for_touches(
        at, [](How how) { return how == How::ends || how == How::leaves; },
        [&](std::uint32_t number, const Cell& cell, How how) {
          if (how == How::leaves && !is_durable(cell.kind)) lay_outside(number, cell, true);
          if (at_once) return change(number, cell, false);
          beside_ += scratch_;
          ending_.push_back({number, cell, first_ + at, how == How::ends, std::exchange(scratch_, 0)});
        });
    if (takes_long(op)) std::erase_if(ending_, [&](const Ending& e) { return e.passes && release(e); });
  }

  // All lanes are through.
  void finish() {
    std::erase_if(ending_, [&](const Ending& e) { return release(e); });
  }

  std::int64_t bytes() const { return live_ + scratch(); }
  std::int64_t scratch() const { return scratch_ + beside_ + throughout_bytes_; }
  std::int64_t host() const { return host_; }
  const Memory::ByKind& by_kind() const { return by_kind_; }
  std::vector<HeldCell> cells() const {
    std::vector<HeldCell> out;
    for (std::uint32_t number = 0; number < state_.size(); ++number)
      if (state_[number].bytes > 0) out.push_back({touches_.cell(number), state_[number].bytes});
    std::ranges::stable_sort(out, std::greater(), &HeldCell::bytes);
    return out;
  }

 private:
  // The step before this one, of which the last ops may still be under way.
  void go_through_step_before() {
    for (std::uint32_t at = 0; at < sequence_.ops.size(); ++at)
      if (sequence_.ops[at].lane == kAheadLane) begin(at), end(at);
    for (const auto& [at, is_of_next_step] : order_) begin(at), end(at);
    first_ = static_cast<std::uint32_t>(sequence_.ops.size());
  }

  struct State {
    std::int64_t bytes = 0;  // held here, outside of slots
    bool is_live = false, is_outside = false;
  };
  struct Ending {
    std::uint32_t number;
    Cell cell;
    std::uint32_t op;
    bool passes;                     // by the time that the next computation is over
    std::int64_t scratch_bytes = 0;  // of that op, beside its cell
  };

  template <typename Which, typename Visit>
  void for_touches(std::uint32_t at, Which which, Visit visit) {
    const Op& op = sequence_.ops[at];
    for (const Touch& touch : touches_.of(at))
      if (which(touch.how)) visit(touches_.number(touch, op), cell_of(touch, op), touch.how);
  }

  // Blocks of a model are alike: the one before it in the tables often has the same.
  const Footprint& footprint_of(std::uint32_t segment) {
    if (footprints_[segment]) return *footprints_[segment];
    for (std::uint32_t other = segment; other-- > 0 && segment - other <= kMostPieces;)
      if (footprints_[other] && is_alike(tables_.segments[segment], tables_.segments[other]))
        return *(footprints_[segment] = footprints_[other]);
    return *(footprints_[segment] = footprint(tables_.segments[segment], tables_));
  }

  bool is_alike(const Segment& a, const Segment& b) const {
    return a.first_piece == b.first_piece && a.num_pieces == b.num_pieces && a.recomputed == b.recomputed &&
           !tables_.units[a.unit].pieces.front().forward_events.empty() &&
           tables_.units[a.unit].pieces == tables_.units[b.unit].pieces;
  }

  std::int64_t size_of(const Cell& cell) {
    if (cell.kind == CellKind::tape) return footprint_of(cell.item).tape_bytes;
    if (cell.kind == CellKind::weight_work) return footprint_of(cell.item).work_bytes;
    return in_slots_.contains(cell) ? 0 : bytes_of(cell, tables_);
  }

  void change(std::uint32_t number, const Cell& cell, bool live) {
    if (state_[number].is_live == live) return;
    const std::int64_t bytes = live ? size_of(cell) : state_[number].bytes;
    state_[number].is_live = live;
    state_[number].bytes = live ? bytes : 0;
    by_kind_[static_cast<std::size_t>(cell.kind)] += live ? bytes : -bytes;
    live_ += live ? bytes : -bytes;
  }

  void lay_outside(std::uint32_t number, const Cell& cell, bool outside) {
    if (state_[number].is_outside == outside) return;
    state_[number].is_outside = outside;
    host_ += outside ? size_of(cell) : -size_of(cell);
  }

  // A durable cell that is fetched before anything else touches it starts the step outside; one that ever
  // leaves has a copy there throughout.
  void add_durable() {
    std::vector<bool> is_seen(touches_.num_cells(), false);
    for (std::uint32_t at = 0; at < sequence_.ops.size(); ++at)
      for_touches(
          at, [](How how) { return how != How::makes && how != How::ends; },
          [&](std::uint32_t number, const Cell& cell, How how) {
            if (!outlives_step(cell, tables_)) return;
            if (how == How::returns || how == How::leaves) lay_outside(number, cell, true);
            if (!is_seen[number] && how != How::returns) change(number, cell, true);
            is_seen[number] = true;
          });
  }

  // A lookup is over before anything that is communicated beside it.
  bool takes_long(const Op& op) const {
    if (!is_compute(op.what)) return false;
    const Segment& segment = tables_.segments[op.item];
    const auto pieces =
        std::span(tables_.units[segment.unit].pieces).subspan(segment.first_piece, segment.num_pieces);
    return std::ranges::any_of(pieces, [](const Piece& piece) { return piece.flops > 0; });
  }

  bool release(const Ending& ending) {
    change(ending.number, ending.cell, false);
    beside_ -= ending.scratch_bytes;
    return true;
  }

  // What other lanes have surely ended by now.
  void settle() {
    std::erase_if(ending_, [&](const Ending& e) { return clocks_.is_done(e.op) && release(e); });
  }

  bool is_live(CellKind kind, std::uint32_t at) {
    bool found = false;
    for_touches(
        at, [](How) { return true; },
        [&](std::uint32_t number, const Cell& cell, How) {
          found = found || (cell.kind == kind && state_[number].is_live);
        });
    return found;
  }

  bool reduces_in_place(const Op& op) {
    if (op.what != OpKind::reduce || !(op.flags & kEndsSource) || (op.flags & (kOfShard | kSides)))
      return false;
    const auto at = static_cast<std::uint32_t>(&op - sequence_.ops.data());
    return tables_.num_slices(tables_.buckets[op.item]) == 1 && !is_live(CellKind::shard_grad, at);
  }

  // Of what a server sends to each worker, or gets from it.
  std::int64_t slice_bytes(const Op& op) const {
    const Bucket& bucket = tables_.buckets[op.item];
    return bucket.elements / tables_.num_slices(bucket) *
           bytes_of(op.what == OpKind::gather ? bucket.compute : bucket.gradient);
  }

  // The WeightGrad's memory becomes the ShardGrad's.
  void hand_on(const Op& op) {
    const auto at = static_cast<std::uint32_t>(&op - sequence_.ops.data());
    for_touches(
        at, [](How how) { return how == How::ends; },
        [&](std::uint32_t number, const Cell& cell, How) { change(number, cell, false); });
  }

  // The peak within the op counts from what is there when it starts and the weight gradients that it begins;
  // of a forward, what it leaves is told apart from what it only needs.
  void compute(const Op& op, std::uint32_t at) {
    const Footprint& f = footprint_of(op.item);
    for_touches(
        at, [](How how) { return how == How::adds; },
        [&](std::uint32_t number, const Cell& cell, How) {
          if (cell.kind == CellKind::weight_grad || cell.kind == CellKind::number) change(number, cell, true);
        });
    const std::int64_t before = live_;
    switch (op.what) {
      case OpKind::forward:
      case OpKind::recompute:
        scratch_ = op.flags & kNoTape ? f.bare_peak : f.forward_peak;
        for_touches(
            at, [](How how) { return how == How::makes; },
            [&](std::uint32_t number, const Cell& cell, How) { change(number, cell, true); });
        break;
      case OpKind::backward:
        scratch_ = f.backward_peak;
        break;
      case OpKind::backward_input:
        scratch_ = f.backward_input_peak;
        break;
      default:
        scratch_ = f.backward_weight_peak;
    }
    scratch_ -= live_ - before;
    add_up_gradients(at);
  }

  // Gradients of a value that several segments read are added up out of place.
  void add_up_gradients(std::uint32_t at) {
    std::int64_t twice = 0;
    for_touches(
        at, [](How how) { return how == How::adds; },
        [&](std::uint32_t number, const Cell& cell, How) {
          if (cell.kind == CellKind::gradient && state_[number].is_live) twice += 2 * bytes_of(cell, tables_);
        });
    scratch_ = std::max(scratch_, twice);
  }

  const Sequence& sequence_;
  const Tables& tables_;
  const Touches touches_;
  const LaneNumbers lanes_;
  Clocks clocks_;
  std::vector<State> state_;  // by cell
  std::vector<std::optional<Footprint>> footprints_;
  const std::vector<Follower> order_;
  std::vector<Ending> ending_;
  Memory::ByKind by_kind_ = {};
  std::int64_t live_ = 0, host_ = 0;
  std::int64_t scratch_ = 0, beside_ = 0;  // of the op, and of those of other lanes that may still run
  std::int64_t throughout_bytes_ = 0;
  std::set<Cell> in_slots_;
  std::uint32_t first_ = 0;  // ops of the step before
};

}  // namespace

Category category_of(CellKind kind) {
  switch (kind) {
    case CellKind::value:
    case CellKind::gradient:
      return Category::values;
    case CellKind::tape:
    case CellKind::weight_work:
      return Category::tapes;
    case CellKind::full:
    case CellKind::ahead:
    case CellKind::shard:
      return Category::parameters;
    case CellKind::weight_grad:
    case CellKind::shard_grad:
      return Category::gradients;
    case CellKind::state:
      return Category::optimizer;
    case CellKind::number:
      break;
  }
  return Category::buffers;
}

Memory replay_memory(const Sequence& sequence, const Tables& tables, const Throughout& throughout) {
  Replay replay(sequence, tables, throughout);
  Memory memory;
  memory.during.resize(sequence.ops.size());
  for (const auto& [at, is_of_next_step] : replay.order()) {
    replay.begin(at);
    memory.during[at] = replay.bytes();
    memory.host_bytes = std::max(memory.host_bytes, replay.host());
    if (memory.during[at] > memory.peak_bytes) {
      memory.peak_bytes = memory.during[at];
      memory.peak_op = at;
      memory.scratch_at_peak = replay.scratch();
      memory.at_peak = replay.by_kind();
    }
    replay.end(at);
  }
  replay.finish();
  for (const CellKind kind : {CellKind::shard, CellKind::state})
    memory.end_bytes += replay.by_kind()[static_cast<std::size_t>(kind)];
  return memory;
}

BytesHeld by_category(const Memory::ByKind& cells, std::int64_t scratch, std::int64_t host) {
  BytesHeld out;
  for (int kind = 0; kind < kNumCellKinds; ++kind)
    out.of(category_of(static_cast<CellKind>(kind))) += cells[static_cast<std::size_t>(kind)];
  out.of(Category::buffers) += scratch;
  out.of(Category::host) = host;
  return out;
}

std::vector<BytesHeld> categories_during(const Sequence& sequence, const Tables& tables) {
  Replay replay(sequence, tables);
  std::vector<BytesHeld> out(sequence.ops.size());
  for (const auto& [at, is_of_next_step] : replay.order()) {
    replay.begin(at);
    out[at] = by_category(replay.by_kind(), replay.scratch(), replay.host());
    replay.end(at);
  }
  return out;
}

std::vector<HeldCell> cells_during(const Sequence& sequence, const Tables& tables, std::uint32_t op,
                                   const Throughout& throughout) {
  Replay replay(sequence, tables, throughout);
  for (const auto& [at, is_of_next_step] : replay.order()) {
    if (at == op) break;
    replay.begin(at);
    replay.end(at);
  }
  replay.begin(op);
  return replay.cells();
}

}  // namespace tessera::program
