#include "tessera/program/check/advance.hpp"

#include "tessera/program/ir/calls.hpp"
#include "tessera/program/ir/hazards.hpp"

namespace tessera::program {

Advance::Advance(const Program& program, const Partners& partners) : partners_(partners) {
  entries_.reserve(partners.num_ops());
  std::size_t num_waits = 0;
  for (const Sequence& sequence : program.classes) num_waits += sequence.waits.size();
  waits_.reserve(num_waits);
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const Sequence& sequence = program.classes[c];
    const LaneNumbers numbers(sequence);
    const auto first_lane = static_cast<std::uint32_t>(first_of_lane_.size());
    classes_.push_back({.first_lane = first_lane, .num_lanes = numbers.size()});
    first_of_lane_.resize(first_lane + numbers.size(), kNone);
    class_of_lane_.resize(first_lane + numbers.size(), c);
    std::vector<std::uint32_t> last(numbers.size(), kNone);
    for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
      const Op& op = sequence.ops[at];
      const std::uint32_t number = partners.first[c] + at, lane = numbers[at];
      Entry& entry = entries_.emplace_back();
      entry.lane = first_lane + lane;
      entry.meeting = partners.meeting[number];
      entry.is_queued = is_queued(op, program.tables);
      entry.is_send = op.what == OpKind::send;
      entry.is_transfer = entry.is_send || op.what == OpKind::receive;
      entry.first_wait = static_cast<std::uint32_t>(waits_.size());
      for (const std::uint32_t wait : sequence.waits_of(op))
        if (!(wait & kPreviousStep)) waits_.push_back(partners.first[c] + wait);
      entry.num_waits = static_cast<std::uint16_t>(waits_.size() - entry.first_wait);
      (last[lane] == kNone ? first_of_lane_[first_lane + lane] : entries_[last[lane]].after) = number;
      last[lane] = number;
    }
  }
}

void Advance::restart(Mode mode) {
  mode_ = mode;
  lanes_.assign(first_of_lane_.size(), {});
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) lanes_[lane].head = first_of_lane_[lane];
  num_there_.assign(partners_.num_meetings(), 0);
  is_done_.assign(partners_.num_ops(), 0);
  num_left_ = partners_.num_ops();
  to_try_.clear();
  for (auto c = static_cast<std::uint32_t>(classes_.size()); c-- > 0;) {
    classes_[c].is_listed = false;
    classes_[c].queue_head = partners_.first[c];
    if (mode.one_queue) pass_queue(c);
    list(c);
  }
}

void Advance::list(std::uint32_t c) {
  classes_[c].num_tried = 0;
  if (classes_[c].is_listed) return;
  classes_[c].is_listed = true;
  to_try_.push_back(c);
}

// Stops at the next op that communicates and has not ended.
void Advance::pass_queue(std::uint32_t c) {
  const std::uint32_t end = partners_.first[c + 1];
  std::uint32_t& head = classes_[c].queue_head;
  while (head < end && (!entries_[head].is_queued || is_done_[head])) ++head;
}

bool Advance::may_start(std::uint32_t op, const Entry& entry, const ClassState& state) const {
  for (std::uint32_t i = 0; i < entry.num_waits; ++i)
    if (!is_done_[waits_[entry.first_wait + i]]) return false;
  return !mode_.one_queue || !entry.is_queued || state.queue_head == op;
}

// Notes that the op is there; true if nobody else is missing.
bool Advance::meets(const Entry& entry) {
  if (entry.meeting == Partners::kAlone) return true;
  if (is_joint(entry)) return ++num_there_[entry.meeting] == partners_.members_of(entry.meeting).size();
  // A buffered receive waits until its send has ended; `end` counts that.
  return entry.is_send || num_there_[entry.meeting] > 0;
}

std::uint32_t Advance::next() {
  while (!to_try_.empty()) {
    ClassState& state = classes_[to_try_.back()];
    while (state.num_tried < state.num_lanes) {
      LaneState& lane = lanes_[state.first_lane + state.lane];
      state.lane = state.lane + 1 == state.num_lanes ? 0 : state.lane + 1;
      ++state.num_tried;
      const std::uint32_t op = lane.head;
      if (lane.is_busy || op == kNone) continue;
      const Entry& entry = entries_[op];
      if (!may_start(op, entry, state)) continue;
      const bool starts = meets(entry);
      lane.is_busy = starts || is_joint(entry);
      if (starts) return op;
    }
    state.is_listed = false;
    to_try_.pop_back();
  }
  return kNone;
}

void Advance::finish(std::uint32_t op) {
  is_done_[op] = 1;
  --num_left_;
  const Entry& entry = entries_[op];
  lanes_[entry.lane] = {entry.after, false};
  const std::uint32_t c = class_of_lane_[entry.lane];
  if (mode_.one_queue) pass_queue(c);
  list(c);
}

void Advance::end(std::uint32_t op) {
  const Entry& entry = entries_[op];
  if (is_joint(entry)) {
    for (const std::uint32_t member : partners_.members_of(entry.meeting)) finish(member);
    return;
  }
  finish(op);
  if (entry.meeting == Partners::kAlone || num_there_[entry.meeting]++ > 0) return;
  list(class_of_lane_[entries_[partners_.members_of(entry.meeting).back()].lane]);
}

}  // namespace tessera::program
