#include <algorithm>
#include <set>
#include <tuple>

#include "tessera/base/text.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/ir/ranks.hpp"

namespace tessera::program {
namespace {

std::vector<std::uint32_t> compute_ops(const Sequence& sequence) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at)
    if (is_compute(sequence.ops[at].what)) out.push_back(at);
  return out;
}

// Axis sets over which some segment communicates while it computes.
std::set<std::int16_t> inner_sets(const Tables& tables) {
  std::set<std::int16_t> out;
  for (const Unit& unit : tables.units)
    for (const Piece& piece : unit.pieces)
      for (const auto* list : {&piece.collectives, &piece.backward_collectives})
        for (const Collective& collective : *list) out.insert(collective.over);
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

namespace {

// Along the stage axis every segment is computed by one rank, and what several of them hold of a bucket is
// reduced among just these.
class StageCheck {
 public:
  StageCheck(const Program& program, std::vector<Problem>& out) : program_(program), out_(out) {
    for (const Sequence& sequence : program.classes) {
      auto& computes = computes_.emplace_back(program.tables.segments.size(), false);
      for (const Op& op : sequence.ops)
        if (op.what == OpKind::forward) computes[op.item] = true;
    }
  }

  void run() {
    const Tables& tables = program_.tables;
    if (tables.stage_axis < 0) {
      const auto first = first_ranks(program_);
      for (std::uint32_t c = 0; c < program_.classes.size(); ++c)
        if (!is_server(tables, first[c])) check_line({c});
      return;
    }
    const mesh::AxisSet stages = mesh_of(tables).along(tables.axes[tables.stage_axis].name);
    std::set<std::vector<std::uint32_t>> seen;
    for (std::size_t rank = 0; rank < tables.class_of_rank.size(); ++rank) {
      if (stages.coordinate(static_cast<mesh::Rank>(rank)) != 0) continue;
      if (is_server(tables, static_cast<mesh::Rank>(rank))) continue;
      std::vector<std::uint32_t> line;
      for (const mesh::Rank peer : stages.peers(static_cast<mesh::Rank>(rank)))
        line.push_back(tables.class_of_rank[static_cast<std::size_t>(peer)]);
      if (seen.insert(line).second) check_line(line);
    }
  }

 private:
  void say(std::uint32_t c, const std::string& what) {
    out_.push_back({c, static_cast<std::uint32_t>(program_.classes[c].ops.size()), what});
  }

  void check_line(const std::vector<std::uint32_t>& line) {
    const Tables& tables = program_.tables;
    for (std::uint32_t segment = 0; segment < tables.segments.size(); ++segment) {
      std::vector<std::uint32_t> found;
      for (const std::uint32_t c : line)
        if (computes_[c][segment]) found.push_back(c);
      if (found.empty()) say(line.front(), cat("segment ", segment, " is computed by nobody"));
      if (found.size() > 1)
        say(found[1],
            cat("segment ", segment, " is computed by class ", found[0], " and by class ", found[1]));
    }
    std::vector<std::vector<std::int64_t>> holders(tables.buckets.size());  // places on the line
    for (std::uint32_t place = 0; place < line.size(); ++place)
      for (std::uint32_t segment = 0; segment < tables.segments.size(); ++segment)
        if (computes_[line[place]][segment])
          for (const std::uint32_t bucket : tables.segments[segment].buckets)
            if (holders[bucket].empty() || holders[bucket].back() != place) holders[bucket].push_back(place);
    for (std::uint32_t bucket = 0; bucket < holders.size(); ++bucket)
      check_bucket(tables.buckets[bucket], holders[bucket], line);
  }

  void check_bucket(const Bucket& bucket, const std::vector<std::int64_t>& holders,
                    const std::vector<std::uint32_t>& line) {
    const Tables& tables = program_.tables;
    if (!bucket.trainable || holders.empty() || tables.stage_axis < 0) return;
    std::vector<std::int64_t> reduced;  // places among which the gradient is summed
    for (const std::int16_t over : {bucket.reduced_over, bucket.shared_over}) {
      if (over < 0) continue;
      const AxisSet& set = tables.axis_sets[over];
      const bool has_axis = std::ranges::count(set.axes, tables.stage_axis) > 0;
      for (std::int64_t place = 0; has_axis && place < static_cast<std::int64_t>(line.size()); ++place)
        if (set.only.empty() || std::ranges::count(set.only, place) > 0) reduced.push_back(place);
    }
    if (reduced == holders || (reduced.empty() && holders.size() == 1)) return;
    const auto list = [](const std::vector<std::int64_t>& places) {
      std::vector<std::string> out;
      for (const std::int64_t place : places) out.push_back(cat(place));
      return out.empty() ? "one of them" : join(out, " and ");
    };
    say(line[static_cast<std::size_t>(holders.front())],
        cat("bucket ", bucket.name, " is computed with at ", list(holders), " along ",
            tables.axes[tables.stage_axis].name, ", but its gradient is reduced among ", list(reduced)));
  }

  const Program& program_;
  std::vector<Problem>& out_;
  std::vector<std::vector<bool>> computes_;  // by class and segment
};

}  // namespace

void check_compute(const Program& program, std::vector<Problem>& out) {
  StageCheck(program, out).run();
  const auto& class_of_rank = program.tables.class_of_rank;
  const auto sets = sets_of(program.tables);
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (const std::int16_t inner : inner_sets(program.tables)) {
    const std::string& name = program.tables.axis_sets[inner].name;
    const mesh::AxisSet& set = sets[static_cast<std::size_t>(inner)];
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
