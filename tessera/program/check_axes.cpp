#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/program/check_parts.hpp"
#include "tessera/program/hazards.hpp"

namespace tessera::program {
namespace {

class AxisCheck {
 public:
  AxisCheck(const Program& program, std::uint32_t rank_class, std::vector<Problem>& out)
      : tables_(program.tables),
        sequence_(program.classes[rank_class]),
        class_(rank_class),
        out_(out),
        last_sum_(tables_.numbers.size(), kNoOp),
        summed_(tables_.numbers.size() * (tables_.axes.size() + 1), kNoOp) {}

  void run() {
    for (std::uint32_t at = 0; at < sequence_.ops.size() && out_.size() < kEnoughProblems; ++at) {
      const Op& op = sequence_.ops[at];
      if (op.what == What::reduce)
        expect(at, tables_.buckets[op.item].reduced_over, "the gradient of", "is partial over");
      if (op.what == What::gather)
        expect(at, tables_.buckets[op.item].sharded_over, "the shard of", "is cut over");
      if (op.what == What::sum) take_sum(at);
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
  std::vector<Problem>& out_;
  std::vector<std::uint32_t> last_sum_;  // per number
  std::vector<std::uint32_t> summed_;    // per number and axis: the op
};

}  // namespace

void check_axes(const Program& program, std::uint32_t rank_class, std::vector<Problem>& out) {
  AxisCheck(program, rank_class, out).run();
}

}  // namespace tessera::program
