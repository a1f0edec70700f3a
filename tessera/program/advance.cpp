#include "tessera/program/advance.hpp"

#include "tessera/program/hazards.hpp"

namespace tessera::program {

Advance::Advance(const Program& program, const Partners& partners) : program_(program), partners_(partners) {
  const std::uint32_t num_ops = partners.num_ops();
  lane_of_.reserve(num_ops);
  after_on_lane_.assign(num_ops, kNone);
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const Sequence& sequence = program.classes[c];
    const LaneNumbers numbers(sequence);
    const auto first_lane = static_cast<std::uint32_t>(first_of_lane_.size());
    classes_.push_back({.first_lane = first_lane, .num_lanes = numbers.size()});
    first_of_lane_.resize(first_lane + numbers.size(), kNone);
    class_of_lane_.resize(first_lane + numbers.size(), c);
    std::vector<std::uint32_t> last(numbers.size(), kNone);
    for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
      const std::uint32_t op = partners.first[c] + at, lane = numbers[at];
      lane_of_.push_back(first_lane + lane);
      (last[lane] == kNone ? first_of_lane_[first_lane + lane] : after_on_lane_[last[lane]]) = op;
      last[lane] = op;
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
    classes_[c].queue_head = 0;
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
  const auto& ops = program_.classes[c].ops;
  std::uint32_t& head = classes_[c].queue_head;
  while (head < ops.size() && (!is_queued(ops[head]) || is_done_[partners_.first[c] + head])) ++head;
}

bool Advance::is_joint(std::uint32_t op) const {
  const std::uint32_t meeting = partners_.meeting[op];
  return meeting != Partners::kAlone && (mode_.rendezvous || !partners_.is_transfer[meeting]);
}

bool Advance::may_start(std::uint32_t op, std::uint32_t c) const {
  const Sequence& sequence = program_.classes[c];
  const std::uint32_t first = partners_.first[c];
  const Op& o = sequence.ops[op - first];
  for (const std::uint32_t wait : sequence.waits_of(o))
    if (!(wait & kPreviousStep) && !is_done_[first + wait]) return false;
  return !mode_.one_queue || !is_queued(o) || classes_[c].queue_head == op - first;
}

// Notes that the op is there; true if nobody else is missing.
bool Advance::meets(std::uint32_t op) {
  const std::uint32_t meeting = partners_.meeting[op];
  if (meeting == Partners::kAlone) return true;
  if (is_joint(op)) return ++num_there_[meeting] == partners_.members_of(meeting).size();
  // A buffered receive waits until its send has ended; `end` counts that.
  return op == partners_.members_of(meeting).front() || num_there_[meeting] > 0;
}

std::uint32_t Advance::next() {
  while (!to_try_.empty()) {
    const std::uint32_t c = to_try_.back();
    ClassState& state = classes_[c];
    while (state.num_tried < state.num_lanes) {
      LaneState& lane = lanes_[state.first_lane + state.lane];
      state.lane = state.lane + 1 == state.num_lanes ? 0 : state.lane + 1;
      ++state.num_tried;
      const std::uint32_t op = lane.head;
      if (lane.is_busy || op == kNone || !may_start(op, c)) continue;
      const bool is_joint_op = is_joint(op);
      if (!meets(op)) {
        lane.is_busy = is_joint_op;
        continue;
      }
      lane.is_busy = true;
      return op;
    }
    state.is_listed = false;
    to_try_.pop_back();
  }
  return kNone;
}

void Advance::finish(std::uint32_t op) {
  is_done_[op] = 1;
  --num_left_;
  LaneState& lane = lanes_[lane_of_[op]];
  lane.head = after_on_lane_[op];
  lane.is_busy = false;
  const std::uint32_t c = class_of_lane_[lane_of_[op]];
  if (mode_.one_queue) pass_queue(c);
  list(c);
}

void Advance::end(std::uint32_t op) {
  const std::uint32_t meeting = partners_.meeting[op];
  if (is_joint(op)) {
    for (const std::uint32_t member : partners_.members_of(meeting)) finish(member);
    return;
  }
  finish(op);
  if (meeting == Partners::kAlone || num_there_[meeting]++ > 0) return;
  list(class_of_lane_[lane_of_[partners_.members_of(meeting).back()]]);
}

}  // namespace tessera::program
