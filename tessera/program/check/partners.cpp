#include "tessera/program/check/partners.hpp"

#include <algorithm>
#include <tuple>

#include "tessera/base/text.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/ir/ranks.hpp"

namespace tessera::program {
namespace {

enum class Side : std::uint8_t { group, send, receive };

// Ops of one class that meet the same ranks, in issue order. A class has a handful: they are looked through.
struct Channel {
  std::int16_t axes, hop;
  Side side;
  std::vector<std::uint32_t> ops;
  bool is_taken = false;  // receives: somebody sends on it
};

class Matcher {
 public:
  Matcher(const Program& program, std::vector<Problem>& out)
      : program_(program),
        out_(out),
        first_rank_(first_ranks(program)),
        sets_(sets_of(program.tables)),
        channels_(program.classes.size()) {}

  Partners run() {
    const auto num_classes = static_cast<std::uint32_t>(program_.classes.size());
    found_.first = {0};
    for (const Sequence& sequence : program_.classes)
      found_.first.push_back(found_.first.back() + static_cast<std::uint32_t>(sequence.ops.size()));
    found_.meeting.assign(found_.num_ops(), Partners::kAlone);
    found_.first_member = {0};
    for (std::uint32_t c = 0; c < num_classes; ++c) collect(c);
    for (std::uint32_t c = 0; c < num_classes; ++c)
      for (const Channel& channel : channels_[c])
        if (channel.side == Side::group) match_group(c, channel);
    for (std::uint32_t c = 0; c < num_classes; ++c)
      for (const Channel& channel : channels_[c])
        if (channel.side == Side::send) match_transfers(c, channel);
    for (std::uint32_t c = 0; c < num_classes; ++c)
      for (const Channel& channel : channels_[c])
        if (channel.side == Side::receive && !channel.is_taken)
          unmatched(c, channel.ops, 0, "receives what nobody sends");
    return std::move(found_);
  }

 private:
  using Ops = std::vector<std::uint32_t>;

  void collect(std::uint32_t c) {
    const auto& ops = program_.classes[c].ops;
    for (std::uint32_t at = 0; at < ops.size(); ++at) {
      const Op& op = ops[at];
      if (is_group_op(op)) {
        channel(c, op.along, 0, Side::group).ops.push_back(at);
      } else if (op.what == OpKind::send || op.what == OpKind::receive) {
        channel(c, op.along, op.hop, op.what == OpKind::send ? Side::send : Side::receive).ops.push_back(at);
      }
    }
  }

  Channel* find(std::uint32_t c, std::int16_t axes, std::int16_t hop, Side side) {
    for (Channel& channel : channels_[c])
      if (channel.axes == axes && channel.hop == hop && channel.side == side) return &channel;
    return nullptr;
  }

  Channel& channel(std::uint32_t c, std::int16_t axes, std::int16_t hop, Side side) {
    if (Channel* found = find(c, axes, hop, side)) return *found;
    return channels_[c].emplace_back(Channel{axes, hop, side, {}});
  }

  void say(std::uint32_t c, std::uint32_t at, const std::string& what) {
    out_.push_back({c, at, cat(named(program_.classes[c], at, program_.tables), " ", what)});
  }

  const Op& op(std::uint32_t c, std::uint32_t at) const { return program_.classes[c].ops[at]; }

  void add_member(std::uint32_t c, std::uint32_t at) {
    found_.meeting[found_.first[c] + at] = found_.num_meetings();
    found_.members.push_back(found_.first[c] + at);
  }

  void close_meeting(bool is_transfer) {
    found_.is_transfer.push_back(is_transfer);
    found_.first_member.push_back(static_cast<std::uint32_t>(found_.members.size()));
  }

  void match_group(std::uint32_t c, const Channel& mine) {
    const std::string& name = program_.tables.axis_sets[mine.axes].name;
    for (const std::uint32_t at : mine.ops)
      if (op(c, at).lane != op(c, mine.ops[0]).lane)
        return say(c, at,
                   cat("is on another lane than ", named(program_.classes[c], mine.ops[0], program_.tables),
                       ": ranks could meet over ", name, " in different orders"));
    std::vector<bool> is_member(program_.classes.size(), false);
    for (const mesh::Rank rank : sets_[mine.axes].peers(first_rank_[c]))
      is_member[program_.tables.class_of_rank[static_cast<std::size_t>(rank)]] = true;
    std::vector<std::pair<std::uint32_t, const Ops*>> others;
    bool is_right = true;
    for (std::uint32_t other = 0; other < is_member.size(); ++other) {
      if (other == c || !is_member[other]) continue;
      const Channel* theirs = find(other, mine.axes, 0, Side::group);
      if (other < c && theirs) return;  // seen from the other side
      is_right = are_equal(c, mine.ops, other, theirs ? theirs->ops : none_, name) && is_right;
      others.emplace_back(other, theirs ? &theirs->ops : &none_);
    }
    if (others.empty() || !is_right) return;
    for (std::size_t k = 0; k < mine.ops.size(); ++k) {
      add_member(c, mine.ops[k]);
      for (const auto& [other, theirs] : others) add_member(other, (*theirs)[k]);
      close_meeting(false);
    }
  }

  bool are_equal(std::uint32_t c, const Ops& ops, std::uint32_t other, const Ops& theirs,
                 const std::string& name) {
    for (std::size_t k = 0; k < std::max(ops.size(), theirs.size()); ++k) {
      if (k >= ops.size()) {
        say(other, theirs[k], cat("has no partner in class ", c, " of its group over ", name));
        return false;
      }
      if (k >= theirs.size()) {
        say(c, ops[k], cat("has no partner in class ", other, " of its group over ", name));
        return false;
      }
      const Op &a = op(c, ops[k]), &b = op(other, theirs[k]);
      if (std::tie(a.what, a.item, a.micro, a.part) != std::tie(b.what, b.item, b.micro, b.part)) {
        say(c, ops[k],
            cat("meets ", named(program_.classes[other], theirs[k], program_.tables), " of class ", other,
                " as number ", k, " over ", name));
        return false;
      }
    }
    return true;
  }

  void match_transfers(std::uint32_t c, const Channel& mine) {
    if (sets_[mine.axes].size() == 1) return unmatched(c, mine.ops, 0, "sends to its own rank");
    const mesh::Rank peer = sets_[mine.axes].neighbour(first_rank_[c], mine.hop);
    const std::uint32_t other = program_.tables.class_of_rank[static_cast<std::size_t>(peer)];
    Channel* theirs = find(other, mine.axes, static_cast<std::int16_t>(-mine.hop), Side::receive);
    if (theirs) theirs->is_taken = true;
    const Ops& receives = theirs ? theirs->ops : none_;
    for (std::size_t k = 0; k < std::min(mine.ops.size(), receives.size()); ++k) {
      if (named_cell(op(c, mine.ops[k])) != named_cell(op(other, receives[k])))
        return say(c, mine.ops[k],
                   cat("meets ", named(program_.classes[other], receives[k], program_.tables), " of class ",
                       other, ", which expects another cell"));
      add_member(c, mine.ops[k]);
      add_member(other, receives[k]);
      close_meeting(true);
    }
    unmatched(c, mine.ops, receives.size(), cat("sends what class ", other, " never receives"));
    unmatched(other, receives, mine.ops.size(), "receives what nobody sends");
  }

  void unmatched(std::uint32_t c, const Ops& ops, std::size_t from, const std::string& what) {
    if (from < ops.size()) say(c, ops[from], what);
  }

  const Program& program_;
  std::vector<Problem>& out_;
  const std::vector<mesh::Rank> first_rank_;
  const std::vector<mesh::AxisSet> sets_;
  std::vector<std::vector<Channel>> channels_;  // per class
  const Ops none_;
  Partners found_;
};

}  // namespace

Partners find_partners(const Program& program, std::vector<Problem>& out) {
  return Matcher(program, out).run();
}

}  // namespace tessera::program
