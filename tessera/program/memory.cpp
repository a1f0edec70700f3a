#include "tessera/program/memory.hpp"

#include <algorithm>

#include "tessera/program/effects.hpp"

namespace tessera::program {
namespace {

class Replay {
 public:
  explicit Replay(const Tables& tables) : tables_(tables), index_(tables), is_live_(index_.size(), false) {}

  void add(const Cell& cell) { change(cell, true); }
  void remove(const Cell& cell) { change(cell, false); }
  std::int64_t bytes() const { return bytes_; }
  const Memory::ByKind& by_kind() const { return by_kind_; }

 private:
  void change(const Cell& cell, bool live) {
    const std::uint32_t at = index_(cell);
    if (is_live_[at] == live) return;
    is_live_[at] = live;
    const std::int64_t bytes = live ? bytes_of(cell, tables_) : -bytes_of(cell, tables_);
    by_kind_[static_cast<std::size_t>(cell.kind)] += bytes;
    bytes_ += bytes;
  }

  const Tables& tables_;
  CellIndex index_;
  std::vector<bool> is_live_;
  Memory::ByKind by_kind_ = {};
  std::int64_t bytes_ = 0;
};

// A durable cell that is fetched before anything else touches it starts the step in host memory.
void add_durable(const Sequence& sequence, const Tables& tables, Replay& replay) {
  const CellIndex index(tables);
  std::vector<bool> seen(index.size(), false);
  Effects found;
  for (const Op& op : sequence.ops) {
    effects(op, tables, found);
    const auto first_touch = [&](const Cell& cell) {
      if (!is_durable(cell.kind) || seen[index(cell)]) return false;
      return static_cast<bool>(seen[index(cell)] = true);
    };
    for (const Cell& cell : found.returns) first_touch(cell);
    for (const auto* list : {&found.reads, &found.adds, &found.leaves})
      for (const Cell& cell : *list)
        if (first_touch(cell)) replay.add(cell);
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
  Replay replay(tables);
  add_durable(sequence, tables, replay);
  Memory memory;
  Effects found;
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
    const Op& op = sequence.ops[at];
    effects(op, tables, found);
    const bool in_place =
        op.what == What::reduce && tables.size_of(tables.buckets[op.item].sharded_over) == 1;
    const auto end = [&] {
      for (const Cell& cell : found.ends) replay.remove(cell);
      for (const Cell& cell : found.leaves) replay.remove(cell);
    };
    if (in_place) end();
    for (const auto* list : {&found.makes, &found.adds, &found.returns})
      for (const Cell& cell : *list) replay.add(cell);
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
