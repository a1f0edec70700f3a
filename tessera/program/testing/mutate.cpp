#include "tessera/program/testing/mutate.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/program/schedule/dice.hpp"

namespace tessera::program {
namespace {

// One edit of one class; nothing if the program has no place for it.
using Edit = std::optional<IllegalEdit> (*)(const Program&, std::uint32_t rank_class, Dice&);

class Editor {
 public:
  Editor(const Program& program, std::uint32_t rank_class)
      : program_(program), tables_(program_.tables), sequence_(program_.classes[rank_class]) {}

  const std::vector<Op>& ops() const { return sequence_.ops; }
  Sequence& sequence() { return sequence_; }
  const Tables& tables() const { return tables_; }
  std::string text(std::uint32_t at) const { return word(ops()[at], tables_); }

  // A random op that fits.
  std::optional<std::uint32_t> pick(Dice& dice, const std::function<bool(std::uint32_t)>& fits) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t at = 0; at < ops().size(); ++at)
      if (fits(at)) found.push_back(at);
    if (found.empty()) return std::nullopt;
    return found[dice.below(found.size())];
  }
  std::optional<std::uint32_t> pick(Dice& dice, OpKind what) const {
    return pick(dice, [&](std::uint32_t at) { return ops()[at].what == what; });
  }

  bool touches(std::uint32_t at, const Cell& cell) const {
    const Effects e = effects(ops()[at], tables_);
    const std::vector<Cell> writes = e.writes();
    return std::ranges::count(e.reads, cell) + std::ranges::count(writes, cell) > 0;
  }
  bool adds(std::uint32_t at, const Cell& cell) const {
    return std::ranges::count(effects(ops()[at], tables_).adds, cell) > 0;
  }

  // The words of all ops that share a cell with this one.
  std::vector<std::string> neighbours(std::uint32_t at) const {
    const Effects e = effects(ops()[at], tables_);
    std::vector<Cell> cells = e.writes();
    cells.insert(cells.end(), e.reads.begin(), e.reads.end());
    std::vector<std::string> out;
    for (std::uint32_t other = 0; other < ops().size(); ++other)
      if (std::ranges::any_of(cells, [&](const Cell& cell) { return touches(other, cell); }))
        out.push_back(text(other));
    return out;
  }

  void move_before(std::uint32_t from, std::uint32_t to) {
    auto& list = sequence_.ops;
    std::rotate(list.begin() + to, list.begin() + from, list.begin() + from + 1);
  }

  // Waits are built anew, so that the edit is the only fault.
  IllegalEdit done(const std::string& what, std::vector<std::string> blamed, bool rebuild = true) {
    if (rebuild) build_waits(sequence_, tables_);
    return {program_, what, std::move(blamed)};
  }

 private:
  Program program_;
  const Tables& tables_;
  Sequence& sequence_;
};

bool is_checked_alone(const Op& op) { return op.what != OpKind::exchange; }

std::optional<IllegalEdit> drop(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  // A number that no other op of these ranks touches (tokens, far from the loss) would not be missed.
  const auto at = edit.pick(dice, [&](std::uint32_t i) {
    return is_checked_alone(edit.ops()[i]) &&
           (edit.ops()[i].what != OpKind::sum || edit.neighbours(i).size() > 1);
  });
  if (!at) return std::nullopt;
  const std::string what = cat("dropped ", edit.text(*at));
  auto blamed = edit.neighbours(*at);
  edit.sequence().ops.erase(edit.sequence().ops.begin() + *at);
  return edit.done(what, std::move(blamed));
}

std::optional<IllegalEdit> repeat(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, [&](std::uint32_t i) { return is_checked_alone(edit.ops()[i]); });
  if (!at) return std::nullopt;
  const Op copy = edit.ops()[*at];
  edit.sequence().ops.insert(edit.sequence().ops.begin() + *at, copy);
  return edit.done(cat("repeated ", edit.text(*at)), {edit.text(*at)});
}

// A reader goes before the op that makes what it reads.
std::optional<IllegalEdit> swap_dependent(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const std::uint32_t first = dice.below(edit.ops().size());
  for (std::uint32_t k = 0; k < edit.ops().size(); ++k) {
    const auto at = static_cast<std::uint32_t>((first + k) % edit.ops().size());
    for (const Cell& cell : effects(edit.ops()[at], edit.tables()).reads) {
      if (outlives_step(cell, edit.tables())) continue;
      std::uint32_t maker = 0;
      while (maker < at && !edit.touches(maker, cell)) ++maker;
      if (maker == at) continue;
      const std::string what = cat("moved ", edit.text(at), " before ", edit.text(maker));
      const std::string blamed = edit.text(at);
      edit.move_before(at, maker);
      return edit.done(what, {blamed});
    }
  }
  return std::nullopt;
}

std::optional<IllegalEdit> remove_wait(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  build_waits(edit.sequence(), edit.tables());  // only the smallest set has nothing to spare
  const auto at = edit.pick(dice, [&](std::uint32_t i) { return edit.ops()[i].num_waits > 0; });
  if (!at) return std::nullopt;
  Op& op = edit.sequence().ops[*at];
  auto& waits = edit.sequence().waits;
  const std::uint32_t which = op.first_wait + dice.below(op.num_waits);
  const std::uint32_t target = waits[which];
  std::swap(waits[which], waits[op.first_wait + op.num_waits - 1u]);
  --op.num_waits;
  return edit.done(cat("removed the wait of ", edit.text(*at), " for ", edit.text(target & ~kPreviousStep)),
                   {edit.text(*at), edit.text(target & ~kPreviousStep)}, false);
}

std::optional<IllegalEdit> wrong_micro(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, [&](std::uint32_t i) { return is_compute(edit.ops()[i].what); });
  if (!at) return std::nullopt;
  const std::string before = edit.text(*at);
  const std::int32_t num_micro = edit.tables().num_micro;
  Op& op = edit.sequence().ops[*at];
  op.micro = num_micro == 1 ? 1 : (op.micro + 1) % num_micro;
  const std::string after = edit.text(*at);
  return edit.done(cat("made ", before, " into ", after), {before, after}, num_micro > 1);
}

std::optional<IllegalEdit> reduce_early(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, OpKind::reduce);
  if (!at) return std::nullopt;
  const Cell gradient{CellKind::weight_grad, edit.ops()[*at].item, kOfStep};
  std::uint32_t last = *at;
  while (last > 0 && !edit.adds(last, gradient)) --last;
  const std::string reduce = edit.text(*at), maker = edit.text(last);
  edit.move_before(*at, last);
  return edit.done(cat("moved ", reduce, " before the last gradient ", maker), {reduce, maker});
}

std::optional<IllegalEdit> step_early(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, OpKind::step);
  const Role role = dice.below(2) == 0 ? Role::norm : Role::finite;
  const auto sum = edit.pick(dice, [&](std::uint32_t i) {
    return edit.ops()[i].what == OpKind::sum && edit.tables().numbers[edit.ops()[i].item].role == role;
  });
  if (!at || !sum || *sum > *at) return std::nullopt;
  const std::string step = edit.text(*at), number = edit.text(*sum);
  edit.move_before(*at, *sum);
  return edit.done(cat("moved ", step, " before ", number), {step});
}

std::optional<IllegalEdit> free_early(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, OpKind::free);
  if (!at || *at == 0) return std::nullopt;
  const Cell cell = named_cell(edit.ops()[*at]);
  std::uint32_t last = *at - 1;
  while (last > 0 && !edit.touches(last, cell)) --last;
  const std::string free = edit.text(*at), reader = edit.text(last);
  edit.move_before(*at, last);
  return edit.done(cat("moved ", free, " before ", reader), {free, reader});
}

std::optional<IllegalEdit> loss_early(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, [&](std::uint32_t i) {
    return edit.ops()[i].what == OpKind::sum && edit.tables().numbers[edit.ops()[i].item].role == Role::loss;
  });
  if (!at) return std::nullopt;
  const Cell loss{CellKind::number, edit.ops()[*at].item, kOfStep};
  std::uint32_t last = *at;
  while (last > 0 && !(edit.ops()[last].what == OpKind::forward && edit.adds(last, loss))) --last;
  if (edit.ops()[last].what != OpKind::forward) return std::nullopt;  // these ranks have no loss
  const std::string sum = edit.text(*at), forward = edit.text(last);
  edit.move_before(*at, last);
  return edit.done(cat("moved ", sum, " before ", forward), {sum, forward});
}

std::optional<IllegalEdit> keep_source(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, [&](std::uint32_t i) { return (edit.ops()[i].flags & kEndsSource) != 0; });
  if (!at) return std::nullopt;
  const auto blamed = edit.neighbours(*at);
  edit.sequence().ops[*at].flags &= static_cast<std::uint16_t>(~kEndsSource);
  return edit.done(cat("let ", edit.text(*at), " keep its source"), blamed);
}

std::optional<IllegalEdit> step_other(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, OpKind::step);
  if (!at) return std::nullopt;
  const auto other =
      edit.pick(dice, [&](std::uint32_t i) { return edit.ops()[i].what == OpKind::step && i != *at; });
  if (!other) return std::nullopt;
  const std::string before = edit.text(*at);
  edit.sequence().ops[*at].item = edit.ops()[*other].item;
  return edit.done(cat("made ", before, " into a second ", edit.text(*other)), {edit.text(*other)});
}

std::optional<IllegalEdit> other_lane(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, OpKind::reduce);
  if (!at) return std::nullopt;
  std::vector<std::string> blamed;
  for (std::uint32_t i = 0; i < edit.ops().size(); ++i)
    if (edit.ops()[i].along == edit.ops()[*at].along) blamed.push_back(edit.text(i));
  if (blamed.size() < 2) return std::nullopt;
  edit.sequence().ops[*at].lane = kCopy;
  return edit.done(cat("moved ", edit.text(*at), " to the copy lane"), blamed);
}

// A reduction, gather or sum over other axes, or over none: every cell would be there, with a wrong content.
std::optional<IllegalEdit> other_axes(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, [&](std::uint32_t i) {
    const OpKind what = edit.ops()[i].what;
    return what == OpKind::gather || what == OpKind::reduce || what == OpKind::sum;
  });
  if (!at) return std::nullopt;
  Op& op = edit.sequence().ops[*at];
  const auto& sets = edit.tables().axis_sets;
  std::vector<std::int16_t> others;
  for (std::int16_t set = -1; set < static_cast<std::int16_t>(sets.size()); ++set) {
    // A sum over more axes may be right.
    const bool covers = op.what == OpKind::sum && set >= 0 && op.along >= 0 &&
                        std::ranges::all_of(sets[op.along].axes, [&](std::int16_t axis) {
                          return std::ranges::count(sets[set].axes, axis) > 0;
                        });
    if (set != op.along && !covers) others.push_back(set);
  }
  if (others.empty()) return std::nullopt;
  op.along = others[dice.below(others.size())];
  return edit.done(cat("turned ", edit.text(*at), " to ", op.along < 0 ? "no axes" : sets[op.along].name),
                   {edit.text(*at)});
}

bool is_transfer(const Op& op) { return op.what == OpKind::send || op.what == OpKind::receive; }

// The transfer as it is called on either side.
std::vector<std::string> both_sides(const Editor& edit, std::uint32_t at) {
  Op op = edit.ops()[at];
  op.flags &= kCellKindMask;
  std::vector<std::string> out = {edit.text(at)};
  for (const OpKind what : {OpKind::send, OpKind::receive}) {
    op.what = what;
    out.push_back(word(op, edit.tables()));
    op.flags |= kEndsSource;
    out.push_back(word(op, edit.tables()));
    op.flags &= kCellKindMask;
  }
  return out;
}

std::optional<IllegalEdit> wrong_hop(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, [&](std::uint32_t i) { return is_transfer(edit.ops()[i]); });
  if (!at) return std::nullopt;
  ++edit.sequence().ops[*at].hop;
  return edit.done(cat("led ", edit.text(*at), " one rank further"), both_sides(edit, *at));
}

// Two transfers on one channel change places on one side only.
std::optional<IllegalEdit> swap_transfers(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, [&](std::uint32_t i) { return is_transfer(edit.ops()[i]); });
  if (!at) return std::nullopt;
  const Op op = edit.ops()[*at];
  const auto other = edit.pick(dice, [&](std::uint32_t i) {
    const Op& o = edit.ops()[i];
    return i != *at && o.what == op.what && o.along == op.along && o.hop == op.hop;
  });
  if (!other) return std::nullopt;
  std::vector<std::string> blamed = both_sides(edit, *at);
  std::ranges::copy(both_sides(edit, *other), std::back_inserter(blamed));
  std::ranges::copy(edit.neighbours(*at), std::back_inserter(blamed));
  std::ranges::copy(edit.neighbours(*other), std::back_inserter(blamed));
  std::swap(edit.sequence().ops[*at], edit.sequence().ops[*other]);
  return edit.done(cat("swapped ", edit.text(*at), " and ", edit.text(*other)), std::move(blamed));
}

std::optional<IllegalEdit> other_channel(const Program& program, std::uint32_t c, Dice& dice) {
  Editor edit(program, c);
  const auto at = edit.pick(dice, [&](std::uint32_t i) { return is_transfer(edit.ops()[i]); });
  if (!at) return std::nullopt;
  Op& op = edit.sequence().ops[*at];
  const auto num_sets = static_cast<std::int16_t>(edit.tables().axis_sets.size());
  op.along = static_cast<std::int16_t>((op.along + 1 + dice.below(num_sets - 1u)) % num_sets);
  return edit.done(cat("turned ", edit.text(*at), " to ", edit.tables().axis_sets[op.along].name),
                   both_sides(edit, *at));
}

constexpr Edit kEdits[] = {drop,       repeat,     swap_dependent, remove_wait,  wrong_micro, reduce_early,
                           step_early, free_early, loss_early,     keep_source,  step_other,  other_lane,
                           other_axes, wrong_hop,  swap_transfers, other_channel};

}  // namespace

IllegalEdit illegal_edit(const Program& program, std::uint64_t seed) {
  Dice dice(seed, "illegal edit");
  const std::size_t first = dice.below(std::size(kEdits));
  const std::uint32_t rank_class = dice.below(program.classes.size());
  for (std::size_t k = 0; k < std::size(kEdits); ++k)
    if (auto edit = kEdits[(first + k) % std::size(kEdits)](program, rank_class, dice))
      return std::move(*edit);
  TESSERA_CHECK(false, "no edit fits a program of ", program.classes[rank_class].ops.size(), " ops");
  return {};
}

}  // namespace tessera::program
