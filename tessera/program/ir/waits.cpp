#include "tessera/program/ir/waits.hpp"

#include <algorithm>

#include "tessera/program/ir/hazards.hpp"

namespace tessera::program {

void build_waits(Sequence& sequence, const Tables& tables, std::span<const ExtraWait> extra) {
  const auto num_ops = static_cast<std::uint32_t>(sequence.ops.size());
  const LaneNumbers lanes(sequence);
  const Touches touches(sequence, tables);
  Hazards hazards(touches, lanes.size());
  Clocks clocks(lanes, num_ops);
  std::vector<Hazard> before;
  sequence.waits.clear();
  std::size_t next_extra = 0;
  for (std::uint32_t at = 0; at < 2 * num_ops; ++at) {
    Op& op = sequence.ops[at % num_ops];
    before.clear();
    hazards.touch(at, op, touches.of(at % num_ops), lanes[at % num_ops], before);
    if (at == num_ops) next_extra = 0;
    for (; next_extra < extra.size() && extra[next_extra].op == at % num_ops; ++next_extra) {
      const std::uint32_t earlier = extra[next_extra].earlier;
      if (!(earlier & kPreviousStep))
        before.push_back({at - at % num_ops + earlier, {}});
      else if (at >= num_ops)
        before.push_back({earlier & ~kPreviousStep, {}});
    }
    clocks.start(at);
    std::erase_if(before, [&](const Hazard& hazard) { return clocks.is_done(hazard.op); });
    // Latest first: whatever an op implies was issued before it, so no wait taken here is implied by a later
    // one.
    std::sort(before.begin(), before.end(), [](const Hazard& a, const Hazard& b) { return a.op > b.op; });
    op.first_wait = static_cast<std::uint32_t>(sequence.waits.size());
    for (const Hazard& hazard : before) {
      if (clocks.is_done(hazard.op)) continue;
      clocks.wait(hazard.op);
      if (at < num_ops)
        continue;  // the second lap is a step with a step before it: its waits are the program's
      const std::uint32_t target = hazard.op % num_ops;
      sequence.waits.push_back(hazard.op < num_ops ? target | kPreviousStep : target);
    }
    op.num_waits = static_cast<std::uint16_t>(sequence.waits.size() - op.first_wait);
  }
}

std::vector<std::uint32_t> places_ahead(const Sequence& sequence) {
  std::vector<std::uint32_t> out(sequence.ops.size(), kNoPlace);
  std::uint32_t place = kNoPlace;  // lanes are in order: one goes no earlier than the one before it
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
    const Op& op = sequence.ops[at];
    if (op.lane != kAheadLane) continue;
    for (const std::uint32_t wait : sequence.waits_of(op)) {
      const std::uint32_t other = wait & ~kPreviousStep;
      if ((wait & kPreviousStep) && sequence.ops[other].lane == kCompute)
        place = place == kNoPlace ? other : std::max(place, other);
    }
    out[at] = place;
  }
  return out;
}

std::vector<Follower> steady_order(const Sequence& sequence) {
  const std::vector<std::uint32_t> places = places_ahead(sequence);
  std::vector<std::uint32_t> ahead;  // those with a place, which never falls
  for (std::uint32_t at = 0; at < places.size(); ++at)
    if (places[at] != kNoPlace) ahead.push_back(at);
  std::vector<Follower> out;
  out.reserve(places.size());
  auto next = ahead.begin();
  for (std::uint32_t at = 0; at < places.size(); ++at) {
    if (places[at] == kNoPlace) out.push_back({at, false});
    for (; next != ahead.end() && places[*next] == at; ++next) out.push_back({*next, true});
  }
  return out;
}

bool has_ahead(const Sequence& sequence) {
  return std::ranges::any_of(sequence.ops, [](const Op& op) { return op.lane == kAheadLane; });
}

bool has_ahead(const Program& program) {
  return std::ranges::any_of(program.classes, [](const Sequence& sequence) { return has_ahead(sequence); });
}

}  // namespace tessera::program
