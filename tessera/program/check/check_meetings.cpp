#include <algorithm>
#include <utility>

#include "tessera/base/text.hpp"
#include "tessera/program/check/advance.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/check/unroll.hpp"
#include "tessera/program/ir/calls.hpp"
#include "tessera/program/ir/hazards.hpp"
#include "tessera/program/ir/waits.hpp"

namespace tessera::program {
namespace {

// Those left over after a walk wait for each other: follows why, until it comes round.
class Cycle {
 public:
  Cycle(const Program& program, const Partners& partners, const Advance& walk, Advance::Mode mode)
      : program_(program),
        partners_(partners),
        walk_(walk),
        lane_before_(partners.num_ops(), kNoOp),
        queue_before_(partners.num_ops(), kNoOp) {
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      const Sequence& sequence = program.classes[c];
      const LaneNumbers lanes(sequence);
      std::vector<std::uint32_t> last(lanes.size(), kNoOp);
      std::uint32_t last_queued = kNoOp;
      for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
        const std::uint32_t op = partners.first[c] + at;
        lane_before_[op] = std::exchange(last[lanes[at]], op);
        if (mode.one_queue && is_queued(sequence.ops[at], program.tables))
          queue_before_[op] = std::exchange(last_queued, op);
      }
    }
  }

  Problem told(const std::string& mode_text) const {
    std::uint32_t at = 0;
    while (!is_open(at)) ++at;
    std::vector<Link> path;
    std::vector<bool> is_seen(partners_.num_ops(), false);
    while (!is_seen[at]) {
      is_seen[at] = true;
      Link link = blocker(at);
      if (link.op == kNoOp) {  // it could start itself: one that it meets cannot
        const auto members = partners_.members_of(partners_.meeting[at]);
        link = {*std::find_if(members.begin(), members.end(), [&](auto m) { return blocker(m).op != kNoOp; }),
                "must meet"};
      }
      path.push_back({at, link.why});
      at = link.op;
    }
    std::string cycle;
    for (auto link = std::find_if(path.begin(), path.end(), [&](const Link& l) { return l.op == at; });
         link != path.end(); ++link)
      cycle += cat(text(link->op), " ", link->why, " ");
    const Place p = walk_.place(at);
    return {p.rank_class, p.op, cat("stuck with ", mode_text, ": ", cycle, text(at))};
  }

 private:
  struct Link {
    std::uint32_t op;
    const char* why;
  };

  bool is_open(std::uint32_t op) const { return op != kNoOp && !walk_.is_done(op); }

  std::string text(std::uint32_t op) const {
    const Place p = walk_.place(op);
    return cat(named(program_.classes[p.rank_class], p.op, program_.tables), " of class ", p.rank_class);
  }

  // What keeps this op itself from starting.
  Link blocker(std::uint32_t op) const {
    if (is_open(lane_before_[op])) return {lane_before_[op], "comes on its lane after"};
    if (is_open(queue_before_[op])) return {queue_before_[op], "comes in its queue after"};
    const std::uint32_t meeting = partners_.meeting[op];
    if (meeting != Partners::kAlone && !walk_.is_joint(op)) {
      const std::uint32_t send = partners_.members_of(meeting).front();
      if (send != op && is_open(send)) return {send, "receives from"};
    }
    const Place p = walk_.place(op);
    const Sequence& sequence = program_.classes[p.rank_class];
    for (const std::uint32_t wait : sequence.waits_of(sequence.ops[p.op]))
      if (!(wait & kPreviousStep) && is_open(partners_.first[p.rank_class] + wait))
        return {partners_.first[p.rank_class] + wait, "waits for"};
    return {kNoOp, ""};
  }

  const Program& program_;
  const Partners& partners_;
  const Advance& walk_;
  std::vector<std::uint32_t> lane_before_, queue_before_;  // per op
};

}  // namespace

namespace {

bool gets_through(Advance& walk, Advance::Mode mode) {
  walk.restart(mode);
  for (std::uint32_t op = walk.next(); op != Advance::kNone; op = walk.next()) walk.end(op);
  return walk.num_left() == 0;
}

// With forwards in the step before theirs: three steps, of which the second has a step on either side.
void check_ahead(const Program& program, std::vector<Problem>& out) {
  if (!has_ahead(program)) return;
  const Program steps = unrolled(program, 3).program;
  const std::size_t before = out.size();
  const Partners partners = find_partners(steps, out);
  if (out.size() > before) return;
  Advance walk(steps, partners);
  constexpr Advance::Mode kMode{.rendezvous = true, .one_queue = false};
  if (!gets_through(walk, kMode))
    out.push_back(Cycle(steps, partners, walk, kMode).told("forwards in the step before theirs"));
}

}  // namespace

void check_meetings(const Program& program, bool runs_ahead, std::vector<Problem>& out) {
  const std::size_t before = out.size();
  check_symmetry(program, out);
  if (out.size() > before) return;  // partners would be sought in the wrong classes
  const Partners partners = find_partners(program, out);
  if (out.size() > before) return;  // whoever has no partner is stuck: one word about it is enough
  if (runs_ahead) check_ahead(program, out);
  Advance walk(program, partners);
  struct {
    Advance::Mode mode;
    const char* text;
  } const modes[] = {
      {{.rendezvous = false, .one_queue = false}, "buffered sends"},
      {{.rendezvous = true, .one_queue = false}, "rendezvous sends"},
      {{.rendezvous = true, .one_queue = true}, "rendezvous sends and one queue a rank"},
  };
  // Each holds its ops back by all that the one before does, and more: who gets through the last gets through
  // all.
  if (gets_through(walk, modes[2].mode)) return;
  for (const auto& [mode, text] : modes)
    if (!gets_through(walk, mode)) out.push_back(Cycle(program, partners, walk, mode).told(text));
}

}  // namespace tessera::program
