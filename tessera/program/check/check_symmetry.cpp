#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/ir/ranks.hpp"

namespace tessera::program {
namespace {

class SymmetryCheck {
 public:
  SymmetryCheck(const Program& program, std::vector<Problem>& out)
      : program_(program),
        class_of_rank_(program.tables.class_of_rank),
        sets_(sets_of(program.tables)),
        first_ranks_(first_ranks(program)),
        out_(out) {}

  void run() {
    std::vector<std::vector<Used>> used(program_.classes.size());
    std::vector<bool> has_groups(sets_.size(), false);
    for (std::uint32_t c = 0; c < program_.classes.size(); ++c) {
      const auto& ops = program_.classes[c].ops;
      for (std::uint32_t at = 0; at < ops.size(); ++at) {
        if (ops[at].what == OpKind::send || ops[at].what == OpKind::receive)
          use({ops[at].along, ops[at].hop}, at, used[c]);
        if (!is_group_op(ops[at])) continue;
        use({ops[at].along, kWholeGroup}, at, used[c]);
        has_groups[static_cast<std::size_t>(ops[at].along)] = true;
      }
    }
    members_.resize(sets_.size());
    for (std::size_t set = 0; set < sets_.size(); ++set)
      if (has_groups[set]) members_[set] = classes_by_group(sets_[set]);
    for (std::size_t rank = 0; rank < class_of_rank_.size(); ++rank)
      std::erase_if(used[class_of_rank_[rank]], [&](const Used& u) {  // said once
        return !is_like_first(static_cast<mesh::Rank>(rank), u.channel, u.first_op);
      });
  }

 private:
  static constexpr std::int16_t kWholeGroup = 0;          // a transfer's hop is never 0
  using Channel = std::pair<std::int16_t, std::int16_t>;  // axis set, hop
  using Classes = std::vector<std::uint32_t>;
  struct Used {
    Channel channel;
    std::uint32_t first_op;
  };

  // A class has a handful of channels.
  static void use(const Channel& channel, std::uint32_t op, std::vector<Used>& used) {
    const auto is_it = [&](const Used& u) { return u.channel == channel; };
    if (std::ranges::none_of(used, is_it)) used.push_back({channel, op});
  }

  std::vector<Classes> classes_by_group(const mesh::AxisSet& set) const {
    std::vector<Classes> out(static_cast<std::size_t>(set.num_groups()));
    for (std::size_t rank = 0; rank < class_of_rank_.size(); ++rank) {
      if (!set.holds(static_cast<mesh::Rank>(rank))) continue;
      Classes& classes = out[static_cast<std::size_t>(set.group_index(static_cast<mesh::Rank>(rank)))];
      if (classes.empty() || classes.back() != class_of_rank_[rank]) classes.push_back(class_of_rank_[rank]);
    }
    for (Classes& classes : out) {
      std::ranges::sort(classes);
      classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    }
    return out;
  }

  Classes met(mesh::Rank rank, const Channel& channel) const {
    const mesh::AxisSet& set = sets_[channel.first];
    if (channel.second == kWholeGroup)
      return members_[channel.first][static_cast<std::size_t>(set.group_index(rank))];
    return {class_of_rank_[static_cast<std::size_t>(set.neighbour(rank, channel.second))]};
  }

  bool is_like_first(mesh::Rank rank, const Channel& channel, std::uint32_t at) {
    const std::uint32_t c = class_of_rank_[static_cast<std::size_t>(rank)];
    if (rank == first_ranks_[c]) return true;
    const Classes expected = met(first_ranks_[c], channel), found = met(rank, channel);
    if (found == expected) return true;
    out_.push_back({c, at,
                    cat("class ", c, " is not symmetric: in ",
                        named(program_.classes[c], at, program_.tables), " rank ", first_ranks_[c],
                        " meets class ", list(expected), ", but rank ", rank, " meets class ", list(found))});
    return false;
  }

  static std::string list(const Classes& classes) {
    std::vector<std::string> out;
    for (const std::uint32_t c : classes) out.push_back(cat(c));
    return join(out, " and ");
  }

  const Program& program_;
  const std::vector<std::uint32_t>& class_of_rank_;
  const std::vector<mesh::AxisSet> sets_;
  const std::vector<mesh::Rank> first_ranks_;
  std::vector<std::vector<Classes>> members_;  // per axis set that has group ops, and group: classes in it
  std::vector<Problem>& out_;
};

}  // namespace

void check_symmetry(const Program& program, std::vector<Problem>& out) { SymmetryCheck(program, out).run(); }

}  // namespace tessera::program
