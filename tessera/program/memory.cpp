#include "tessera/program/memory.hpp"

#include <algorithm>

#include "tessera/program/touches.hpp"

namespace tessera::program {
namespace {

class Replay {
 public:
  Replay(const Touches& touches, const Tables& tables)
      : touches_(touches), tables_(tables), is_live_(touches.num_cells(), false) {}

  void change(const Op& op, const Touch& touch, bool live) {
    const std::uint32_t number = touches_.number(touch, op);
    if (is_live_[number] == live) return;
    is_live_[number] = live;
    const std::int64_t bytes = bytes_of(cell_of(touch, op), tables_);
    by_kind_[static_cast<std::size_t>(touch.kind)] += live ? bytes : -bytes;
    bytes_ += live ? bytes : -bytes;
  }
  std::int64_t bytes() const { return bytes_; }
  const Memory::ByKind& by_kind() const { return by_kind_; }

 private:
  const Touches& touches_;
  const Tables& tables_;
  std::vector<bool> is_live_;
  Memory::ByKind by_kind_ = {};
  std::int64_t bytes_ = 0;
};

// A durable cell that is fetched before anything else touches it starts the step in host memory.
void add_durable(const Sequence& sequence, const Touches& touches, Replay& replay) {
  std::vector<bool> is_seen(touches.num_cells(), false);
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
    for (const Touch& touch : touches.of(at)) {
      const std::uint32_t number = touches.number(touch, sequence.ops[at]);
      if (!is_durable(touch.kind) || is_seen[number]) continue;
      if (touch.how == How::makes || touch.how == How::ends) continue;
      is_seen[number] = true;
      if (touch.how != How::returns) replay.change(sequence.ops[at], touch, true);
    }
  }
}

// What the op holds only while it runs. Pieces run one after the other.
std::int64_t scratch_bytes(const Op& op, const Tables& tables) {
  if (op.what != What::forward && op.what != What::recompute) return 0;
  const Segment& segment = tables.segments[op.item];
  std::int64_t most = 0;
  for (std::uint32_t i = 0; i < segment.num_pieces; ++i)
    most = std::max(most, tables.units[segment.unit].pieces[segment.first_piece + i].scratch_bytes);
  return most;
}

}  // namespace

Memory replay_memory(const Sequence& sequence, const Tables& tables) {
  const Touches touches(sequence, tables);
  Replay replay(touches, tables);
  add_durable(sequence, touches, replay);
  Memory memory;
  memory.during.reserve(sequence.ops.size());
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
    const Op& op = sequence.ops[at];
    const auto touched = touches.of(at);
    const bool in_place =
        op.what == What::reduce && tables.size_of(tables.buckets[op.item].sharded_over) == 1;
    const auto end = [&] {
      for (const Touch& touch : touched)
        if (touch.how == How::ends || touch.how == How::leaves) replay.change(op, touch, false);
    };
    if (in_place) end();
    for (const Touch& touch : touched)
      if (touch.how == How::makes || touch.how == How::adds || touch.how == How::returns)
        replay.change(op, touch, true);
    const std::int64_t scratch = scratch_bytes(op, tables);
    memory.during.push_back(replay.bytes() + scratch);
    if (memory.during.back() > memory.peak_bytes) {
      memory.peak_bytes = memory.during.back();
      memory.peak_op = at;
      memory.scratch_at_peak = scratch;
      memory.at_peak = replay.by_kind();
    }
    end();
  }
  const auto number = static_cast<std::size_t>(CellKind::number);
  memory.end_bytes = replay.bytes() - replay.by_kind()[number];
  return memory;
}

}  // namespace tessera::program
