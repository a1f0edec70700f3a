#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/ir/hazards.hpp"
#include "tessera/program/ir/ranks.hpp"

namespace tessera::program {
namespace {

class AxisCheck {
 public:
  AxisCheck(const Program& program, std::uint32_t rank_class, std::vector<Problem>& out)
      : tables_(program.tables),
        sequence_(program.classes[rank_class]),
        class_(rank_class),
        is_server_(is_server(program.tables, first_ranks(program)[rank_class])),
        out_(out),
        last_sum_(tables_.numbers.size(), kNoOp),
        summed_(tables_.numbers.size() * (tables_.axes.size() + 1), kNoOp) {}

  void run() {
    for (std::uint32_t at = 0; at < sequence_.ops.size() && out_.size() < kEnoughProblems; ++at) {
      const Op& op = sequence_.ops[at];
      if (op.what == OpKind::reduce && (op.flags & kOfShard))
        expect(at, tables_.buckets[op.item].shared_over, "the reduced gradient of", "is still partial over");
      else if (op.what == OpKind::reduce) {
        expect(at, tables_.buckets[op.item].reduced_over, "the gradient of", "is partial over");
        expect_placement(at);
      }
      if (op.what == OpKind::gather) {
        expect(at, tables_.buckets[op.item].sharded_over, "the shard of", "is cut over");
        if (tables_.buckets[op.item].full_resident)
          say(at,
              cat("gathers bucket ", tables_.buckets[op.item].name, ", which is computed with as it lies"));
      }
      if (op.what == OpKind::sum) take_sum(at);
      if (info(op.what).item == ItemOf::bucket) expect_side(at);
    }
    for (std::uint32_t number = 0; number < last_sum_.size(); ++number)
      if (last_sum_[number] != kNoOp) expect_whole(number);
  }

 private:
  void say(std::uint32_t at, const std::string& what) {
    out_.push_back({class_, at, cat(named(sequence_, at, tables_), " ", what)});
  }

  std::span<const std::int16_t> axes_of(std::int16_t set) const {
    return set < 0 ? std::span<const std::int16_t>() : tables_.axis_sets[set].axes;
  }
  std::string set_text(std::int16_t set) const { return set < 0 ? "no axes" : tables_.axis_sets[set].name; }

  // One rule for groups of every size: a program stays right when its axes grow.
  void expect(std::uint32_t at, std::int16_t set, const char* whose, const char* how) {
    const Op& op = sequence_.ops[at];
    if (op.along != set)
      say(at, cat("runs over ", set_text(op.along), ", but ", whose, " bucket ",
                  tables_.buckets[op.item].name, " ", how, " ", set_text(set)));
  }

  // What servers hold is whole on workers, and is updated by servers.
  void expect_side(std::uint32_t at) {
    const Op& op = sequence_.ops[at];
    const Bucket& bucket = tables_.buckets[op.item];
    const bool is_served = tables_.is_served(bucket);
    const bool is_of_shard = op.what == OpKind::step || (op.flags & kOfShard);
    if (is_served && is_of_shard && !is_server_)
      say(at, cat("uses the shard of bucket ", bucket.name, ", which servers hold"));
    const std::uint16_t side = !is_served || is_of_shard ? 0 : is_server_ ? kOfServer : kOfWorker;
    if ((op.flags & kSides) != side)
      say(at, cat("is not what a ", is_server_ ? "server" : "worker", " does with bucket ", bucket.name));
  }

  // A gradient is summed over the axes on which the bucket lies as R, and no others.
  void expect_placement(std::uint32_t at) {
    const Bucket& bucket = tables_.buckets[sequence_.ops[at].item];
    if (bucket.placement.empty()) return;
    std::vector<std::int16_t> summed;
    for (const std::int16_t set : {bucket.reduced_over, bucket.shared_over})
      for (const std::int16_t axis : axes_of(set)) summed.push_back(axis);
    for (const auto& [axis, placement] : bucket.placement) {
      if (tables_.axes[axis].size == 1 || axis == tables_.stage_axis) continue;
      const bool is_summed = std::ranges::count(summed, axis) > 0;
      if (is_summed == (placement == Placement::replicated)) continue;
      say(at, cat(is_summed ? "and what follows sum over " : "and what follows do not sum over ",
                  tables_.axes[axis].name, ", where ranks hold ",
                  placement == Placement::sharded     ? "other parts of bucket "
                  : placement == Placement::invariant ? "equal gradients of bucket "
                                                      : "partial gradients of bucket ",
                  bucket.name));
    }
  }

  // The entry before those of the axes is that of sums over none.
  std::uint32_t& summed(std::uint32_t number, std::size_t axis_or_none) {
    return summed_[number * (tables_.axes.size() + 1) + axis_or_none];
  }

  void take_sum(std::uint32_t at) {
    const Op& op = sequence_.ops[at];
    std::uint32_t before = kNoOp;
    const auto take = [&](std::size_t axis_or_none) {
      std::uint32_t& entry = summed(op.item, axis_or_none);
      if (entry != kNoOp) before = entry;
      entry = at;
    };
    const auto& partial = tables_.numbers[op.item].partial_over;
    for (const std::int16_t axis : axes_of(op.along)) {
      take(static_cast<std::size_t>(axis) + 1);
      if (std::ranges::count(partial, axis) == 0)
        say(at, cat("sums over ", tables_.axes[axis].name, ", where all ranks hold the same Number(",
                    tables_.numbers[op.item].name, "): it would be counted more than once"));
    }
    if (op.along >= 0 && !tables_.axis_sets[op.along].only.empty())
      say(at, cat("sums over ", set_text(op.along), ", which is only a part of an axis"));
    if (op.along < 0) take(0);
    if (before != kNoOp)
      say(at, cat("sums over ", set_text(op.along), ", which ", named(sequence_, before, tables_),
                  " has in part or whole summed over already"));
    last_sum_[op.item] = at;
  }

  void expect_whole(std::uint32_t number) {
    std::vector<std::string> missing;
    for (const std::int16_t axis : tables_.numbers[number].partial_over)
      if (summed(number, static_cast<std::size_t>(axis) + 1) == kNoOp)
        missing.push_back(tables_.axes[axis].name);
    if (!missing.empty())
      say(last_sum_[number], cat("is the last sum of Number(", tables_.numbers[number].name,
                                 "), which stays partial over ", join(missing, ", ")));
  }

  const Tables& tables_;
  const Sequence& sequence_;
  const std::uint32_t class_;
  const bool is_server_;
  std::vector<Problem>& out_;
  std::vector<std::uint32_t> last_sum_;  // per number
  std::vector<std::uint32_t> summed_;    // per number and axis: the op
};

}  // namespace

void check_axes(const Program& program, std::uint32_t rank_class, std::vector<Problem>& out) {
  AxisCheck(program, rank_class, out).run();
}

namespace {

struct Sum {
  std::uint32_t op = 0;
  std::int16_t along = -1;
};
using Sums = std::vector<Sum>;  // of one number, in issue order

// The first of mine over a set that comes earlier in theirs than what I have summed over before.
const Sum* out_of_order(const Sums& mine, const Sums& theirs) {
  std::ptrdiff_t last = 0;
  for (const Sum& sum : mine) {
    const auto place = std::ranges::find(theirs, sum.along, &Sum::along) - theirs.begin();
    if (place == std::ssize(theirs)) continue;
    if (place < last) return &sum;
    last = place;
  }
  return nullptr;
}

}  // namespace

void check_sum_order(const Program& program, std::vector<Problem>& out) {
  const auto& numbers = program.tables.numbers;
  std::vector<std::vector<std::pair<std::uint32_t, Sums>>> known(
      numbers.size());  // distinct orders, each with a class
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const Sequence& sequence = program.classes[c];
    std::vector<Sums> mine(numbers.size());
    for (std::uint32_t at = 0; at < sequence.ops.size(); ++at)
      if (sequence.ops[at].what == OpKind::sum)
        mine[sequence.ops[at].item].push_back({at, sequence.ops[at].along});
    for (std::size_t number = 0; number < numbers.size(); ++number) {
      const auto is_like_mine = [&](const auto& other) {
        return std::ranges::equal(other.second, mine[number], {}, &Sum::along, &Sum::along);
      };
      if (std::ranges::any_of(known[number], is_like_mine)) continue;
      for (const auto& [other, theirs] : known[number])
        if (const Sum* sum = out_of_order(mine[number], theirs))
          out.push_back(
              {c, sum->op,
               cat(named(sequence, sum->op, program.tables), " sums over other axes before than in class ",
                   other, ": ranks that meet in it would add parts to sums")});
      known[number].emplace_back(c, std::move(mine[number]));
    }
  }
}

}  // namespace tessera::program
