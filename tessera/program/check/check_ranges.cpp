#include "tessera/base/text.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/ir/ranks.hpp"

namespace tessera::program {
namespace {

class RangeCheck {
 public:
  RangeCheck(const Program& program, std::uint32_t rank_class, std::vector<Problem>& out)
      : tables_(program.tables), sequence_(program.classes[rank_class]), class_(rank_class), out_(out) {}

  void run() {
    for (std::uint32_t at = 0; at < sequence_.ops.size() && out_.size() < kEnoughProblems; ++at) {
      at_ = at;
      const Op& op = sequence_.ops[at];
      item(op);
      lane(op);
      axes(op);
      waits(op);
      if (op.cost != 0 && op.cost >= tables_.costs.size())
        say(cat("has cost class ", op.cost, ", there are ", tables_.costs.size()));
    }
  }

 private:
  void say(const std::string& what) {
    out_.push_back({class_, at_, cat(named(sequence_, at_, tables_), " ", what)});
  }

  void below(std::uint32_t index, std::size_t size, const char* what) {
    if (index >= size) say(cat("speaks of ", what, " ", index, ", but there are only ", size));
  }

  void micro(const Op& op, bool is_of_micro) {
    if (is_of_micro && (op.micro < 0 || op.micro >= tables_.num_micro))
      say(cat("speaks of micro-batch ", op.micro, ", but there are only ", tables_.num_micro));
    if (!is_of_micro && op.micro != kOfStep) say("belongs to the step, so it must not name a micro-batch");
  }

  void item(const Op& op) {
    switch (info(op.what).item) {
      case ItemOf::segment:
        below(op.item, tables_.segments.size(), "segment");
        return micro(op, true);
      case ItemOf::number:
        below(op.item, tables_.numbers.size(), "number");
        return micro(op, false);
      case ItemOf::bucket:
        below(op.item, tables_.buckets.size(), "bucket");
        return micro(op, false);
      case ItemOf::service:
        below(op.item, kNumServices, "service");
        return micro(op, false);
      case ItemOf::cell:
        return cell(op);
    }
  }

  void cell(const Op& op) {
    const auto kind = op.flags & kCellKindMask;
    if (kind >= kNumCellKinds) return say(cat("names cell kind ", kind, ", which does not exist"));
    const CellKind k = static_cast<CellKind>(kind);
    if (k == CellKind::value || k == CellKind::gradient) {
      below(op.item, tables_.values.size(), "value");
    } else if (k == CellKind::tape || k == CellKind::weight_work) {
      below(op.item, tables_.segments.size(), "segment");
    } else if (k == CellKind::number) {
      below(op.item, tables_.numbers.size(), "number");
    } else {
      below(op.item, tables_.buckets.size(), "bucket");
    }
    micro(op, is_of_micro(k));
    if (!may_name(op.what, k)) say("names a cell of another kind than such an op can move or end");
  }

  // Whatever else ends or moves does so by the op that uses it up: a gradient of weights that is freed would
  // be missing.
  static bool may_name(OpKind what, CellKind kind) {
    const bool is_value = kind == CellKind::value;
    if (what == OpKind::offload || what == OpKind::fetch) return is_value || is_durable(kind);
    return is_value || kind == CellKind::gradient || (what == OpKind::free && kind == CellKind::full);
  }

  // Units keep what they compute with, and what lies outside is found, by one thread at a time.
  void lane(const Op& op) {
    const bool is_ahead = op.what == OpKind::forward && (op.flags & kAhead);
    if (is_compute(op.what) && op.lane != (is_ahead ? kAheadLane : kCompute))
      say("computes on another lane than its own");
    if (!is_ahead && op.lane == kAheadLane) say("is no forward of weights ahead, but on their lane");
    if ((op.flags & kAhead) && !is_ahead && op.what != OpKind::gather)
      say("is marked as ahead, which forwards and gathers can be");
    if ((op.what == OpKind::offload || op.what == OpKind::fetch) && op.lane != kCopy)
      say("moves a cell on another lane than copy");
  }

  void axes(const Op& op) {
    const auto num_sets = static_cast<std::int16_t>(tables_.axis_sets.size());
    if (op.along < -1 || op.along >= num_sets)
      return say(cat("runs over axis set ", op.along, ", there are ", num_sets));
    if (op.lane.kind == LaneKind::communication && (op.lane.axes < 0 || op.lane.axes >= num_sets))
      say(cat("is on the lane of axis set ", op.lane.axes, ", there are ", num_sets));
    if ((op.what == OpKind::send || op.what == OpKind::receive) && (op.along < 0 || op.hop == 0))
      say("has no other side: it needs an axis set and a hop");
  }

  void waits(const Op& op) {
    if (op.first_wait > sequence_.waits.size() || op.num_waits > sequence_.waits.size() - op.first_wait)
      return say("has waits outside the list of waits");
    for (const std::uint32_t wait : sequence_.waits_of(op)) {
      const std::uint32_t target = wait & ~kPreviousStep;
      if (target >= sequence_.ops.size()) {
        say(cat("waits for op ", target, ", but there are only ", sequence_.ops.size()));
      } else if (!(wait & kPreviousStep) && target >= at_) {
        say(cat("waits for ", named(sequence_, target, tables_), ", which is not issued before it"));
      }
    }
  }

  const Tables& tables_;
  const Sequence& sequence_;
  const std::uint32_t class_;
  std::uint32_t at_ = 0;
  std::vector<Problem>& out_;
};

// All ranks of a class are servers, or none is.
void check_sides(const Program& program, std::vector<Problem>& out) {
  const auto& class_of_rank = program.tables.class_of_rank;
  const auto first = first_ranks(program);
  for (std::size_t rank = 0; rank < class_of_rank.size(); ++rank)
    if (is_server(program.tables, static_cast<mesh::Rank>(rank)) !=
        is_server(program.tables, first[class_of_rank[rank]]))
      out.push_back({class_of_rank[rank], 0,
                     cat("of ranks ", first[class_of_rank[rank]], " and ", rank, ", both of class ",
                         class_of_rank[rank], ", one is a server")});
}

}  // namespace

void check_ranges(const Program& program, std::vector<Problem>& out) {
  const Tables& tables = program.tables;
  std::vector<bool> has_rank(program.classes.size(), false);
  for (std::size_t rank = 0; rank < tables.class_of_rank.size(); ++rank) {
    const std::uint32_t c = tables.class_of_rank[rank];
    if (c >= program.classes.size()) {
      out.push_back(
          {c, 0, cat("rank ", rank, " is of class ", c, ", but there are only ", program.classes.size())});
      return;
    }
    has_rank[c] = true;
  }
  std::int64_t num_ranks = 1;
  for (const Axis& axis : tables.axes) num_ranks *= axis.size;
  if (num_ranks != static_cast<std::int64_t>(tables.class_of_rank.size()))
    out.push_back(
        {0, 0,
         cat("the axes hold ", num_ranks, " ranks, but ", tables.class_of_rank.size(), " have a class")});
  else if (tables.has_servers())
    check_sides(program, out);
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    if (!has_rank[c]) out.push_back({c, 0, cat("no rank is of class ", c)});
    RangeCheck(program, c, out).run();
  }
}

}  // namespace tessera::program
