#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/base/text.hpp"
#include "tessera/program/check_parts.hpp"
#include "tessera/program/meetings.hpp"
#include "tessera/program/ranks.hpp"
#include "tessera/program/text.hpp"

namespace tessera::program {
namespace {

// Finds, for each class, who stands on the other side. Ranks of a class meet the same classes, so one stands for
// all.
class Matcher {
 public:
  Matcher(const Program& program, Meetings& meetings, std::vector<Problem>& out)
      : program_(program),
        meetings_(meetings),
        out_(out),
        first_rank_(first_ranks(program)),
        sets_(sets_of(program.tables)) {
    collect();
  }

  void run() {
    for (const auto& [key, ops] : groups_) match_group(key.first, key.second, ops);
    for (const auto& [key, sends] : sends_) match_channel(key, sends);
    for (const auto& [key, receives] : receives_)
      if (!taken_.contains(key)) unmatched(std::get<0>(key), receives, 0, "receives what nobody sends");
  }

 private:
  using Ops = std::vector<std::uint32_t>;
  using Channel = std::tuple<std::uint32_t, std::int16_t, std::int16_t>;  // class, axis set, hop

  void collect() {
    for (std::uint32_t c = 0; c < program_.classes.size(); ++c) {
      const auto& ops = program_.classes[c].ops;
      for (std::uint32_t at = 0; at < ops.size(); ++at) {
        const Channel channel{c, ops[at].along, ops[at].hop};
        if (is_group_op(ops[at])) groups_[{c, ops[at].along}].push_back(at);
        if (ops[at].what == What::send) sends_[channel].push_back(at);
        if (ops[at].what == What::receive) receives_[channel].push_back(at);
      }
    }
  }

  void say(std::uint32_t c, std::uint32_t at, const std::string& what) {
    out_.push_back({c, at, cat(named(program_.classes[c], at, program_.tables), " ", what)});
  }

  const Op& op(std::uint32_t c, std::uint32_t at) const { return program_.classes[c].ops[at]; }

  void match_group(std::uint32_t c, std::int16_t axes, const Ops& ops) {
    const std::string& name = program_.tables.axis_sets[axes].name;
    for (const std::uint32_t at : ops)
      if (op(c, at).lane != op(c, ops[0]).lane)
        return say(c, at,
                   cat("is on another lane than ", named(program_.classes[c], ops[0], program_.tables),
                       ": ranks could meet over ", name, " in different orders"));
    std::vector<bool> is_member(program_.classes.size(), false);
    for (const mesh::Rank rank : sets_[axes].peers(first_rank_[c]))
      is_member[program_.tables.class_of_rank[static_cast<std::size_t>(rank)]] = true;
    for (std::uint32_t other = 0; other < is_member.size(); ++other) {
      if (other == c || !is_member[other]) continue;
      const auto found = groups_.find({other, axes});
      const Ops& theirs = found == groups_.end() ? none_ : found->second;
      if (other < c && !theirs.empty()) continue;  // seen from the other side
      match_members(c, ops, other, theirs, name);
    }
  }

  void match_members(std::uint32_t c, const Ops& ops, std::uint32_t other, const Ops& theirs,
                     const std::string& name) {
    for (std::size_t k = 0; k < std::max(ops.size(), theirs.size()); ++k) {
      if (k >= ops.size())
        return say(other, theirs[k], cat("has no partner in class ", c, " of its group over ", name));
      if (k >= theirs.size())
        return say(c, ops[k], cat("has no partner in class ", other, " of its group over ", name));
      const Op &a = op(c, ops[k]), &b = op(other, theirs[k]);
      if (std::tie(a.what, a.item, a.micro, a.part) != std::tie(b.what, b.item, b.micro, b.part))
        return say(c, ops[k],
                   cat("meets ", named(program_.classes[other], theirs[k], program_.tables), " of class ",
                       other, " as number ", k, " over ", name));
      meetings_.join_group({c, ops[k]}, {other, theirs[k]});
    }
  }

  void match_channel(const Channel& channel, const Ops& sends) {
    const auto [c, axes, hop] = channel;
    if (sets_[axes].size() == 1) return unmatched(c, sends, 0, "sends to its own rank");
    const mesh::Rank peer = sets_[axes].neighbour(first_rank_[c], hop);
    const std::uint32_t other = program_.tables.class_of_rank[static_cast<std::size_t>(peer)];
    const Channel back{other, axes, static_cast<std::int16_t>(-hop)};
    taken_[back] = true;
    const auto found = receives_.find(back);
    const Ops& receives = found == receives_.end() ? none_ : found->second;
    for (std::size_t k = 0; k < std::min(sends.size(), receives.size()); ++k) {
      if (named_cell(op(c, sends[k])) != named_cell(op(other, receives[k])))
        return say(c, sends[k],
                   cat("meets ", named(program_.classes[other], receives[k], program_.tables), " of class ",
                       other, ", which expects another cell"));
      meetings_.join_transfer({c, sends[k]}, {other, receives[k]});
    }
    unmatched(c, sends, receives.size(), cat("sends what class ", other, " never receives"));
    unmatched(other, receives, sends.size(), "receives what nobody sends");
  }

  void unmatched(std::uint32_t c, const Ops& ops, std::size_t from, const std::string& what) {
    if (from < ops.size()) say(c, ops[from], what);
  }

  const Program& program_;
  Meetings& meetings_;
  std::vector<Problem>& out_;
  const std::vector<mesh::Rank> first_rank_;
  const std::vector<mesh::AxisSet> sets_;
  std::map<std::pair<std::uint32_t, std::int16_t>, Ops> groups_;
  std::map<Channel, Ops> sends_, receives_;
  std::map<Channel, bool> taken_;
  const Ops none_;
};

}  // namespace

void check_meetings(const Program& program, std::vector<Problem>& out) {
  const std::size_t before = out.size();
  check_symmetry(program, out);
  if (out.size() > before) return;  // partners would be sought in the wrong classes
  Meetings meetings(program);
  Matcher(program, meetings, out).run();
  if (out.size() > before) return;  // whoever has no partner is stuck: one word about it is enough
  meetings.walk({.rendezvous = false, .one_queue = false}, "buffered sends", out);
  meetings.walk({.rendezvous = true, .one_queue = false}, "rendezvous sends", out);
  meetings.walk({.rendezvous = true, .one_queue = true}, "rendezvous sends and one queue a rank", out);
}

}  // namespace tessera::program
