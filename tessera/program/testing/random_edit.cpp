#include "tessera/program/testing/random_edit.hpp"

#include <algorithm>
#include <iterator>

#include "tessera/base/text.hpp"
#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/program/schedule/dice.hpp"

namespace tessera::program {
namespace {

// Whether the two may not change places.
bool conflict(const Op& a, const Op& b, const Tables& tables) {
  const Effects x = effects(a, tables), y = effects(b, tables);
  const std::vector<Cell> x_writes = x.writes(), y_writes = y.writes();
  const auto meet = [](const std::vector<Cell>& one, const std::vector<Cell>& other) {
    return std::ranges::any_of(one, [&](const Cell& cell) { return std::ranges::count(other, cell) > 0; });
  };
  if (meet(x_writes, y_writes) || meet(x_writes, y.reads) || meet(x.reads, y_writes)) return true;
  const bool same_channel = a.along >= 0 && a.along == b.along && a.what == b.what && a.hop == b.hop;
  return same_channel || (is_group_op(a) && is_group_op(b) && a.along == b.along);
}

// Over two steps: which ops are surely done when an op starts, by lane order and waits alone.
std::vector<std::vector<bool>> done_before(const Sequence& sequence) {
  const std::size_t num_ops = sequence.ops.size();
  std::vector<std::vector<bool>> out(2 * num_ops, std::vector<bool>(2 * num_ops, false));
  const auto take = [&](std::size_t op, std::size_t earlier) {
    out[op][earlier] = true;
    for (std::size_t i = 0; i < earlier; ++i) out[op][i] = out[op][i] || out[earlier][i];
  };
  for (std::size_t at = 0; at < 2 * num_ops; ++at) {
    const Op& op = sequence.ops[at % num_ops];
    for (std::size_t before = at; before-- > 0;)
      if (sequence.ops[before % num_ops].lane == op.lane) {
        take(at, before);
        break;
      }
    for (const std::uint32_t wait : sequence.waits_of(op)) {
      const std::size_t target = wait & ~kPreviousStep;
      if (!(wait & kPreviousStep)) take(at, at / num_ops * num_ops + target);
      if ((wait & kPreviousStep) && at >= num_ops) take(at, target);
    }
  }
  return out;
}

bool is_ordered(const Sequence& sequence, const Tables& tables) {
  const std::size_t num_ops = sequence.ops.size();
  const auto done = done_before(sequence);
  for (std::size_t at = num_ops; at < 2 * num_ops; ++at)
    for (std::size_t before = 0; before < at; ++before)
      if (!done[at][before] && conflict(sequence.ops[before % num_ops], sequence.ops[at % num_ops], tables))
        return false;
  return true;
}

// Everyone goes on as long as somebody can. Strict: a send waits for its receive, and a rank's communication
// for all that it issued before.
class NaiveWalk {
 public:
  NaiveWalk(const Program& program, bool is_strict)
      : program_(program),
        is_strict_(is_strict),
        sets_(sets_of(program.tables)),
        first_rank_(first_ranks(program)) {
    for (const Sequence& sequence : program.classes) done_.emplace_back(sequence.ops.size(), false);
  }

  bool gets_through() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::uint32_t c = 0; c < program_.classes.size(); ++c)
        for (std::uint32_t at = 0; at < program_.classes[c].ops.size(); ++at)
          if (!done_[c][at] && is_ready(c, at) && others_are_ready(c, at)) moves = done_[c][at] = true;
    }
    return std::ranges::all_of(done_, [](const auto& ops) { return std::ranges::count(ops, false) == 0; });
  }

 private:
  const Op& op(std::uint32_t c, std::uint32_t at) const { return program_.classes[c].ops[at]; }
  std::uint32_t class_of(mesh::Rank rank) const {
    return program_.tables.class_of_rank[static_cast<std::size_t>(rank)];
  }

  bool is_ready(std::uint32_t c, std::uint32_t at) const {
    const Sequence& sequence = program_.classes[c];
    for (std::uint32_t before = 0; before < at; ++before) {
      const bool in_queue = is_strict_ && op(c, before).along >= 0 && op(c, at).along >= 0;
      if (!done_[c][before] && (in_queue || op(c, before).lane == op(c, at).lane)) return false;
    }
    return std::ranges::all_of(sequence.waits_of(op(c, at)),
                               [&](std::uint32_t wait) { return (wait & kPreviousStep) || done_[c][wait]; });
  }

  // The op of class `other` that comes as the same number among those that `fits` accepts.
  template <typename Mine, typename Theirs>
  std::uint32_t partner(std::uint32_t c, std::uint32_t at, std::uint32_t other, Mine mine,
                        Theirs theirs) const {
    const auto number =
        std::count_if(program_.classes[c].ops.begin(), program_.classes[c].ops.begin() + at, mine);
    std::ptrdiff_t seen = 0;
    for (std::uint32_t i = 0; i < program_.classes[other].ops.size(); ++i)
      if (theirs(op(other, i)) && seen++ == number) return i;
    return kNone;
  }

  bool others_are_ready(std::uint32_t c, std::uint32_t at) const {
    const Op& mine = op(c, at);
    if (mine.what == OpKind::receive || (mine.what == OpKind::send && is_strict_)) {
      const std::uint32_t other = class_of(sets_[mine.along].neighbour(first_rank_[c], mine.hop));
      const OpKind opposite = mine.what == OpKind::send ? OpKind::receive : OpKind::send;
      const auto is_mine = [&](const Op& o) {
        return o.what == mine.what && o.along == mine.along && o.hop == mine.hop;
      };
      const auto is_theirs = [&](const Op& o) {
        return o.what == opposite && o.along == mine.along && o.hop == -mine.hop;
      };
      const std::uint32_t theirs = partner(c, at, other, is_mine, is_theirs);
      return theirs != kNone && (done_[other][theirs] || (is_strict_ && is_ready(other, theirs)));
    }
    if (!is_group_op(mine)) return true;
    const auto of_group = [&](const Op& o) { return is_group_op(o) && o.along == mine.along; };
    return std::ranges::all_of(sets_[mine.along].peers(first_rank_[c]), [&](mesh::Rank peer) {
      const std::uint32_t other = class_of(peer), theirs = partner(c, at, other, of_group, of_group);
      return theirs != kNone && (done_[other][theirs] || is_ready(other, theirs));
    });
  }

  static constexpr std::uint32_t kNone = 0xffff'ffffu;
  const Program& program_;
  const bool is_strict_;
  const std::vector<mesh::AxisSet> sets_;
  const std::vector<mesh::Rank> first_rank_;
  std::vector<std::vector<bool>> done_;
};

class RandomEditor {
 public:
  RandomEditor(const Program& program, std::uint64_t seed)
      : dice_(seed, "random edit"),
        out_{program, {}, false},
        class_(dice_.below(program.classes.size())),
        sequence_(out_.program.classes[class_]) {}

  // Of what orders one step after the other.
  RandomEdit run_at_edge() {
    constexpr bool (RandomEditor::*kEdits[])() = {
        &RandomEditor::drop_edge_wait, &RandomEditor::other_edge_wait, &RandomEditor::other_lane_as_it_waits};
    while (!(this->*kEdits[dice_.below(std::size(kEdits))])()) at_ = dice_.below(sequence_.ops.size());
    out_.is_harmless = is_ordered(sequence_, out_.program.tables);
    return std::move(out_);
  }

  RandomEdit run() {
    constexpr bool (RandomEditor::*kEdits[])() = {
        &RandomEditor::drop,        &RandomEditor::repeat,     &RandomEditor::other_item,
        &RandomEditor::other_micro, &RandomEditor::other_hop,  &RandomEditor::drop_wait,
        &RandomEditor::move,        &RandomEditor::other_lane, &RandomEditor::other_flag};
    bool is_changed = false;
    while (!is_changed) {
      at_ = dice_.below(sequence_.ops.size());
      is_changed = (this->*kEdits[dice_.below(std::size(kEdits))])();
    }
    out_.is_harmless = keeps_meaning_ && NaiveWalk(out_.program, false).gets_through() &&
                       NaiveWalk(out_.program, true).gets_through();
    return std::move(out_);
  }

 private:
  Op& op() { return sequence_.ops[at_]; }
  std::string text() { return word(op(), out_.program.tables); }
  void say(const std::string& what) { out_.what = cat("class ", class_, ", op ", at_, ": ", what); }

  // Waits for the ops as they now are.
  bool rebuilt() {
    build_waits(sequence_, out_.program.tables);
    return true;
  }

  bool drop() {
    say("dropped " + text());
    sequence_.ops.erase(sequence_.ops.begin() + at_);
    return rebuilt();
  }

  bool repeat() {
    say("repeated " + text());
    const Op copy = op();
    const std::uint32_t to = at_ + dice_.below(sequence_.ops.size() - at_);
    sequence_.ops.insert(sequence_.ops.begin() + to, copy);
    return rebuilt();
  }

  std::size_t num_items() {
    const Tables& tables = out_.program.tables;
    if (is_compute(op().what)) return tables.segments.size();
    if (op().what == OpKind::sum) return tables.numbers.size();
    if (op().what == OpKind::send || op().what == OpKind::receive) return tables.values.size();
    return tables.buckets.size();
  }

  bool other_item() { return changed(op().item, dice_.below(num_items())); }

  bool other_micro() {
    if (op().micro == kOfStep) return false;
    return changed(op().micro, static_cast<std::int32_t>(
                                   dice_.below(static_cast<std::size_t>(out_.program.tables.num_micro))));
  }

  template <typename T>
  bool changed(T& field, T value) {
    if (field == value) return false;
    const std::string before = text();
    field = value;
    say(cat(before, " became ", text()));
    return rebuilt();
  }

  bool other_hop() {
    if (op().what != OpKind::send && op().what != OpKind::receive) return false;
    const auto hop = static_cast<std::int16_t>(static_cast<int>(dice_.below(5)) - 2);
    if (hop == op().hop) return false;
    say(cat(text(), " from hop ", op().hop, " to ", hop));
    op().hop = hop;
    return rebuilt();
  }

  bool other_lane() {
    const Lane lanes[] = {kCompute, kCopy, communication(0)};
    const Lane lane = lanes[dice_.below(std::size(lanes))];
    if (lane == op().lane) return false;
    say(cat(text(), " moved from lane ", name_of(op().lane, out_.program.tables), " to ",
            name_of(lane, out_.program.tables)));
    op().lane = lane;
    return rebuilt();
  }

  // One mark more or less, or a cell of another kind.
  bool other_flag() {
    constexpr std::uint16_t kMarks[] = {kEndsSource, kNoTape, kOfShard, kUnchanged};
    const std::size_t which = dice_.below(std::size(kMarks) + 1);
    if (which < std::size(kMarks))
      return changed(op().flags, static_cast<std::uint16_t>(op().flags ^ kMarks[which]));
    if (!names_cell(op().what)) return false;
    const auto kind = static_cast<std::uint16_t>(dice_.below(kNumCellKinds));
    return changed(op().flags, static_cast<std::uint16_t>((op().flags & ~kCellKindMask) | kind));
  }

  bool drop_wait() {
    if (op().num_waits == 0) return false;
    auto& waits = sequence_.waits;
    const std::uint32_t which = op().first_wait + dice_.below(op().num_waits);
    say(cat(text(), " waits no more for op ", waits[which] & ~kPreviousStep,
            waits[which] & kPreviousStep ? " of the step before" : ""));
    std::swap(waits[which], waits[op().first_wait + op().num_waits - 1u]);
    --op().num_waits;
    keeps_meaning_ = is_ordered(sequence_, out_.program.tables);
    return true;
  }

  // Some wait for an op of the step before; null: the op has none.
  std::uint32_t* edge_wait() {
    std::vector<std::uint32_t*> found;
    for (std::uint32_t i = op().first_wait; i < op().first_wait + op().num_waits; ++i)
      if (sequence_.waits[i] & kPreviousStep) found.push_back(&sequence_.waits[i]);
    return found.empty() ? nullptr : found[dice_.below(found.size())];
  }

  bool drop_edge_wait() {
    std::uint32_t* wait = edge_wait();
    if (!wait) return false;
    say(cat(text(), " waits no more for op ", *wait & ~kPreviousStep, " of the step before"));
    std::swap(*wait, sequence_.waits[op().first_wait + op().num_waits - 1u]);
    --op().num_waits;
    return true;
  }

  bool other_edge_wait() {
    std::uint32_t* wait = edge_wait();
    const std::uint32_t other = dice_.below(sequence_.ops.size()) | kPreviousStep;
    if (!wait || *wait == other) return false;
    say(cat(text(), " waits for op ", other & ~kPreviousStep, " of the step before, no more for ",
            *wait & ~kPreviousStep));
    *wait = other;
    return true;
  }

  bool other_lane_as_it_waits() {
    if (op().what != OpKind::step && op().what != OpKind::free) return false;
    const Lane lane = op().lane == kUpdate ? kCompute : kUpdate;
    say(cat(text(), " moved to lane ", name_of(lane, out_.program.tables), ", as it waits"));
    op().lane = lane;
    return true;
  }

  bool move() {
    const std::size_t size = sequence_.ops.size();
    const bool is_near = dice_.below(2) == 0;
    const std::size_t reach = std::min<std::size_t>(4, size - 1);
    const std::size_t low = is_near && at_ > reach ? at_ - reach : 0;
    const std::size_t high = is_near ? std::min(size - 1, at_ + reach) : size - 1;
    const auto to = static_cast<std::uint32_t>(low + dice_.below(high - low + 1));
    if (to == at_) return false;
    say(cat(text(), " moved to ", to));
    const Op moved = op();
    keeps_meaning_ = true;
    for (std::uint32_t i = std::min(at_, to); i <= std::max(at_, to); ++i)
      if (i != at_ && conflict(sequence_.ops[i], moved, out_.program.tables)) keeps_meaning_ = false;
    sequence_.ops.erase(sequence_.ops.begin() + at_);
    sequence_.ops.insert(sequence_.ops.begin() + to, moved);
    return rebuilt();
  }

  Dice dice_;
  RandomEdit out_;
  const std::uint32_t class_;
  Sequence& sequence_;
  std::uint32_t at_ = 0;
  bool keeps_meaning_ = false;
};

}  // namespace

RandomEdit random_edit(const Program& program, std::uint64_t seed) {
  return RandomEditor(program, seed).run();
}

RandomEdit edge_edit(const Program& program, std::uint64_t seed) {
  return RandomEditor(program, seed).run_at_edge();
}

}  // namespace tessera::program
