#include "tessera/program/memory/slots.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tessera/program/ir/touches.hpp"
#include "tessera/program/ir/waits.hpp"

namespace tessera::program {
namespace {

constexpr std::int64_t kSlotAlignment = 512;

// A cell from the op that makes it to the last one that may use its memory.
struct Life {
  Cell cell;
  std::uint32_t begin = 0, end = 0;
  std::uint32_t ended_by = 0;    // may be on another lane than the last use
  std::uint32_t free_after = 0;  // the last op during which the memory is taken to be in use
  std::int64_t bytes = 0;
};

class Lives {
 public:
  Lives(const Sequence& sequence, const Tables& tables)
      : sequence_(sequence), tables_(tables), touches_(sequence, tables), open_(touches_.num_cells()) {
    find_next_computations();
    find_last_uses();
    for (std::uint32_t at = 0; at < sequence.ops.size(); ++at)
      for (const Touch& touch : touches_.of(at)) visit(at, touch);
    std::ranges::stable_sort(found_, {}, &Life::begin);
  }
  const std::vector<Life>& found() const { return found_; }
  const std::vector<LateEnd>& late() const { return late_; }

 private:
  bool is_placed(const Cell& cell, const Op& maker) const {
    switch (cell.kind) {
      case CellKind::full:
        return true;
      case CellKind::weight_grad:
        return tables_.num_slices(tables_.buckets[cell.item]) > 1 ||
               tables_.is_served(tables_.buckets[cell.item]);
      case CellKind::value:
      case CellKind::gradient:
        return maker.what == OpKind::receive;
      default:
        return false;
    }
  }

  void visit(std::uint32_t at, const Touch& touch) {
    const Op& op = sequence_.ops[at];
    const std::uint32_t number = touches_.number(touch, op);
    const Cell cell = cell_of(touch, op);
    auto& open = open_[number];
    const bool begins = touch.how == How::makes || touch.how == How::adds;
    if (begins && !open && is_placed(cell, op)) open = at;
    if (touch.how != How::ends && touch.how != How::leaves) return;
    if (!open) return end_late(at, cell);
    const std::int64_t bytes =
        (bytes_of(cell, tables_) + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
    const std::uint32_t end = std::max(at, last_use(cell));
    found_.push_back({cell, *open, end, at, std::max(free_after(end), free_after(at)), bytes});
    open.reset();
  }

  void end_late(std::uint32_t at, const Cell& cell) {
    if (sequence_.ops[at].what != OpKind::send) return;
    const std::uint32_t meanwhile = next_computation_[at];
    if (meanwhile == kNever || next_computation_[meanwhile] == kNever) return;
    late_.push_back({next_computation_[meanwhile], at, cell});
  }

  // What ends on another lane is under way for some time.
  std::uint32_t free_after(std::uint32_t end) const {
    return sequence_.ops[end].lane.kind == LaneKind::compute ? end : next_computation_[end];
  }
  void find_next_computations() {
    next_computation_.assign(sequence_.ops.size(), kNever);
    std::uint32_t next = kNever;
    for (auto at = static_cast<std::uint32_t>(sequence_.ops.size()); at-- > 0;) {
      next_computation_[at] = next;
      if (is_compute(sequence_.ops[at].what)) next = at;
    }
  }

  // Tapes and what is left of a split backward hold the values that their segments read, and the gradients of
  // those that they write. What a segment makes of either may be the same memory, handed through.
  void find_last_uses() {
    std::set<std::pair<std::uint32_t, std::int32_t>> computed;  // segments and micro-batches
    for (std::uint32_t at = 0; at < sequence_.ops.size(); ++at) {
      const Op& op = sequence_.ops[at];
      if (is_compute(op.what)) computed.insert({op.item, op.micro});
      for (const Touch& touch : touches_.of(at)) {
        const Cell cell = cell_of(touch, op);
        if (touch.how != How::ends && touch.how != How::leaves) continue;
        if (cell.kind == CellKind::value || cell.kind == CellKind::gradient) use(cell, at);
        if (cell.kind != CellKind::tape && cell.kind != CellKind::weight_work) continue;
        const Segment& segment = tables_.segments[cell.item];
        for (const auto value : segment.reads) use({CellKind::value, value, op.micro}, at);
        for (const auto value : segment.writes) use({CellKind::gradient, value, op.micro}, at);
      }
    }
    for (const auto& [item, micro] : computed) hand_through(item, micro, CellKind::gradient);
    for (auto it = computed.rbegin(); it != computed.rend(); ++it)
      hand_through(it->first, it->second, CellKind::value);
  }
  void hand_through(std::uint32_t item, std::int32_t micro, CellKind kind) {
    const Segment& segment = tables_.segments[item];
    const bool is_value = kind == CellKind::value;
    for (const auto from : is_value ? segment.reads : segment.writes)
      for (const auto to : is_value ? segment.writes : segment.reads)
        use({kind, from, micro}, last_use({kind, to, micro}));
  }
  void use(const Cell& cell, std::uint32_t at) { last_use_[cell] = std::max(last_use_[cell], at); }
  std::uint32_t last_use(const Cell& cell) const {
    const auto found = last_use_.find(cell);
    return found == last_use_.end() ? 0 : found->second;
  }

  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  const Sequence& sequence_;
  const Tables& tables_;
  const Touches touches_;
  std::vector<std::uint32_t> next_computation_;     // after each op
  std::vector<std::optional<std::uint32_t>> open_;  // by cell: the op that made it
  std::map<Cell, std::uint32_t> last_use_;
  std::vector<Life> found_;
  std::vector<LateEnd> late_;
};

struct Range {
  std::int64_t begin = 0, end = 0;
  std::uint32_t last = 0, ended_by = 0;  // Life::end, Life::ended_by
  std::uint32_t free_after = 0;          // Life::free_after
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
  bool holds(const Range& other) const { return begin <= other.begin && other.end <= end; }
};

// One life after the other, each at the lowest place that is free.
class Places {
 public:
  void add(const Life& life) {
    std::erase_if(live_, [&](const Range& range) {
      const bool is_over = range.free_after < life.begin;
      if (is_over) past_.push_back(range);
      return is_over;
    });
    const Range range = lowest_free(life);
    for (const Range& before : past_)
      if (before.meets(range))
        waits_.insert(waits_.end(), {{life.begin, before.last}, {life.begin, before.ended_by}});
    // What is first to lie there in a step comes after what was last to lie there in the step before.
    if (range.end > used_) first_.push_back({range.begin, range.end, life.begin});
    used_ = std::max(used_, range.end);
    std::erase_if(past_, [&](const Range& before) { return range.holds(before); });
    live_.insert(std::ranges::upper_bound(live_, range.begin, {}, &Range::begin), range);
    slots_.placed.push_back({life.begin, life.cell, range.begin});
    slots_.bytes = std::max(slots_.bytes, range.end);
  }

  Slots finish() {
    past_.insert(past_.end(), live_.begin(), live_.end());
    for (const Range& first : first_)
      for (const Range& last : past_)
        if (last.meets(first))
          waits_.insert(waits_.end(), {{first.last, last.last | kPreviousStep},
                                       {first.last, last.ended_by | kPreviousStep}});
    return std::move(slots_);
  }
  const std::vector<ExtraWait>& waits() const { return waits_; }

 private:
  Range lowest_free(const Life& life) const {
    std::int64_t at = 0;
    for (const Range& range : live_) {  // by where they begin
      if (range.begin - at >= life.bytes) break;
      at = std::max(at, range.end);
    }
    return {at, at + life.bytes, life.end, life.ended_by, life.free_after};
  }

  Slots slots_;
  std::vector<Range> live_, past_;  // what lies there, and what did
  std::vector<Range> first_;        // `last` is here the op that makes it
  std::int64_t used_ = 0;
  std::vector<ExtraWait> waits_;
};

Slots placed(Sequence& sequence, const Tables& tables) {
  Places places;
  const Lives lives(sequence, tables);
  for (const Life& life : lives.found()) places.add(life);
  Slots slots = places.finish();
  slots.late = lives.late();
  std::vector<ExtraWait> waits = places.waits();
  for (const LateEnd& late : slots.late) waits.push_back({late.op, late.ended_by});
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at)
    for (const std::uint32_t wait : sequence.waits_of(sequence.ops[at])) waits.push_back({at, wait});
  std::ranges::stable_sort(waits, {}, &ExtraWait::op);
  build_waits(sequence, tables, waits);
  return slots;
}

}  // namespace

std::span<const Slot> Slots::of(std::uint32_t op) const {
  const auto [first, last] = std::ranges::equal_range(placed, op, {}, &Slot::op);
  return {first, last};
}

std::vector<Slots> place_in_slots(Program& program) {
  std::vector<Slots> out;
  for (Sequence& sequence : program.classes) out.push_back(placed(sequence, program.tables));
  return out;
}

}  // namespace tessera::program
