#include <algorithm>
#include <set>
#include <tuple>

#include "tessera/base/text.hpp"
#include "tessera/program/check_parts.hpp"
#include "tessera/program/ranks.hpp"

namespace tessera::program {
namespace {

std::vector<std::uint32_t> compute_ops(const Sequence& sequence) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at)
    if (sequence.ops[at].what <= What::backward_weight) out.push_back(at);
  return out;
}

// Axes over which some segment communicates while it computes.
std::set<std::int16_t> inner_axes(const Tables& tables) {
  std::set<std::int16_t> out;
  for (const Segment& segment : tables.segments)
    for (std::uint32_t i = 0; i < segment.num_pieces; ++i)
      if (const auto& collective = tables.units[segment.unit].pieces[segment.first_piece + i].collective)
        out.insert(collective->axis);
  return out;
}

void compare(const Program& program, std::uint32_t c, std::uint32_t other, const std::string& axis,
             std::vector<Problem>& out) {
  const Sequence &mine = program.classes[c], &theirs = program.classes[other];
  const auto a = compute_ops(mine), b = compute_ops(theirs);
  const auto name = [&](const Sequence& sequence, std::uint32_t at) {
    return named(sequence, at, program.tables);
  };
  for (std::size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
    const std::string rule =
        cat(", though they share groups over ", axis, " and communicate while they compute");
    if (k >= a.size())
      return out.push_back(
          {other, b[k], cat(name(theirs, b[k]), " computes what class ", c, " does not", rule)});
    if (k >= b.size())
      return out.push_back(
          {c, a[k], cat(name(mine, a[k]), " computes what class ", other, " does not", rule)});
    const Op &x = mine.ops[a[k]], &y = theirs.ops[b[k]];
    if (std::tie(x.what, x.item, x.micro, x.part) != std::tie(y.what, y.item, y.micro, y.part))
      return out.push_back(
          {c, a[k],
           cat(name(mine, a[k]), " computes while class ", other, " is at ", name(theirs, b[k]), rule)});
  }
}

}  // namespace

void check_compute(const Program& program, std::vector<Problem>& out) {
  const auto& class_of_rank = program.tables.class_of_rank;
  const mesh::Mesh mesh = mesh_of(program.tables);
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (const std::int16_t axis : inner_axes(program.tables)) {
    const std::string& name = program.tables.axes[axis].name;
    const mesh::AxisSet set = mesh.along(name);
    for (std::size_t rank = 0; rank < class_of_rank.size(); ++rank) {
      // Order is equal among all members if it is that of the first.
      const mesh::Rank first = set.member(static_cast<mesh::Rank>(rank), 0);
      const std::uint32_t c = class_of_rank[static_cast<std::size_t>(first)], other = class_of_rank[rank];
      if (c != other && seen.insert(std::minmax(c, other)).second)
        compare(program, std::min(c, other), std::max(c, other), name, out);
    }
  }
}

}  // namespace tessera::program
