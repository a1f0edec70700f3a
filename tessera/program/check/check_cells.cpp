#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/ir/hazards.hpp"

namespace tessera::program {
namespace {

// The life of a cell. Issue order is exact here: check_order proves that lanes cannot change what an op sees.
enum class Life : std::uint8_t { absent, present, on_host, ended };

struct CellState {
  Life life = Life::absent;
  Life at_start = Life::absent;
  bool is_known = false;          // durable cells: whether at_start is found out
  bool has_copy = false;          // what was fetched, and nothing has changed it since
  std::uint32_t touched = kNoOp;  // the last op that changed it
  std::uint32_t used_by = kNoOp;  // ShardGrad and Number: the first op that took it as final
};

class CellCheck {
 public:
  CellCheck(const Program& program, std::uint32_t rank_class, const Touches& touches,
            std::vector<Problem>& out)
      : tables_(program.tables),
        sequence_(program.classes[rank_class]),
        class_(rank_class),
        out_(out),
        touches_(touches),
        cells_(touches.num_cells()),
        unreduced_(tables_.buckets.size(), kNoOp),
        shared_(tables_.buckets.size(), kNoOp),
        unsummed_(tables_.numbers.size(), kNoOp),
        has_step_(tables_.buckets.size(), false),
        made_ahead_(tables_.buckets.size(), false),
        reads_ahead_(tables_.buckets.size(), kNoOp),
        is_summed_(tables_.numbers.size(), false),
        forwards_(tables_.segments.size() * static_cast<std::size_t>(tables_.num_micro), false),
        backwards_(forwards_.size(), false),
        num_forwards_(tables_.segments.size(), 0),
        trains_(std::ranges::any_of(program.classes, has_backward)) {
    for (const Op& op : sequence_.ops)
      if (op.what == OpKind::step) has_step_[op.item] = true;
  }

  void run() {
    for (at_ = 0; at_ < sequence_.ops.size() && out_.size() < kEnoughProblems; ++at_) {
      const Op& op = sequence_.ops[at_];
      if (op.what == OpKind::forward) count_forward(op);
      if (op.what == OpKind::backward || op.what == OpKind::backward_input) backwards_[place_of(op)] = true;
      if (op.what == OpKind::reduce) take_gradient(op);
      if (op.what == OpKind::gather) expect_old_version(op);
      if (op.what == OpKind::forward && (op.flags & kAhead)) expect_its_version(op);
      if (op.what == OpKind::sum) take_number(op);
      for (const Touch& touch : touches_.of(at_)) apply(op, touch);
    }
    if (out_.size() < kEnoughProblems) end_of_step();
  }

 private:
  static bool has_backward(const Sequence& sequence) {
    return std::ranges::any_of(
        sequence.ops, [](const Op& op) { return is_compute(op.what) && op.what != OpKind::forward; });
  }

  std::string op_text(std::uint32_t op) const { return named(sequence_, op, tables_); }

  void say(const std::string& what) { out_.push_back({class_, at_, cat(op_text(at_), " ", what)}); }

  // At the end of the step the op that was last at fault is named.
  void say_at_end(std::uint32_t op, const std::string& what) {
    out_.push_back({class_, static_cast<std::uint32_t>(sequence_.ops.size()), cat(op_text(op), " ", what)});
  }

  void apply(const Op& op, const Touch& touch) {
    CellState& state = cells_[touches_.number(touch, op)];
    switch (touch.how) {
      case How::reads:
        return read(op, touch, state);
      case How::returns:
        return move(op, touch, state, Life::on_host, Life::present, "fetches");
      case How::makes:
        return make(op, touch, state);
      case How::adds:
        return add(op, touch, state);
      case How::leaves:
        return move(op, touch, state, Life::present, Life::on_host, "offloads");
      case How::ends:
        return move(op, touch, state, Life::present, Life::ended, "ends");
    }
  }

  void meet(CellState& state, const Touch& touch, Life first_seen = Life::present) const {
    if (state.is_known) return;
    state.is_known = true;
    if (outlives_step({touch.kind, touch.item, kOfStep}, tables_)) state.life = state.at_start = first_seen;
  }

  std::string cell_text(const Op& op, const Touch& touch) const {
    return to_text(cell_of(touch, op), tables_);
  }

  std::string why_not_there(const CellState& state) const {
    switch (state.life) {
      case Life::absent:
        return "which is not made yet";
      case Life::ended:
        return cat("which ", op_text(state.touched), " has ended");
      case Life::on_host:
        return state.touched == kNoOp ? "which is in host memory"
                                      : cat("which ", op_text(state.touched), " has moved to host memory");
      case Life::present:
        break;
    }
    return state.touched == kNoOp ? "which is there already"
                                  : cat("which is there already, since ", op_text(state.touched));
  }

  void read(const Op& op, const Touch& cell, CellState& s) {
    // A rank sums the norm of the buckets it steps; the others are another class's.
    if (op.what == OpKind::sum && cell.kind == CellKind::shard_grad && !has_step_[cell.item] &&
        s.life == Life::absent)
      return;
    meet(s, cell);
    if (s.life != Life::present) say(cat("reads ", cell_text(op, cell), ", ", why_not_there(s)));
    const bool is_final = (cell.kind == CellKind::shard_grad && op.what != OpKind::reduce) ||
                          (cell.kind == CellKind::number && op.what != OpKind::sum);
    if (is_final && s.used_by == kNoOp) s.used_by = at_;
    if (cell.kind == CellKind::shard_grad && unreduced_[cell.item] != kNoOp) {
      say(cat("uses the gradient of bucket ", tables_.buckets[cell.item].name, " before the part made by ",
              op_text(unreduced_[cell.item]), " is reduced"));
      unreduced_[cell.item] = kNoOp;
    }
    if (cell.kind == CellKind::shard_grad && op.what != OpKind::reduce && shared_[cell.item] == kNoOp &&
        tables_.buckets[cell.item].shared_over >= 0) {
      say(cat("uses the gradient of bucket ", tables_.buckets[cell.item].name, " before it is summed over ",
              tables_.axis_sets[tables_.buckets[cell.item].shared_over].name));
      shared_[cell.item] = at_;
    }
  }

  void make(const Op& op, const Touch& cell, CellState& s) {
    meet(s, cell);
    const bool may_again = cell.kind == CellKind::full && s.life == Life::ended;
    if (s.life == Life::ended && !may_again) {
      say(cat("makes ", cell_text(op, cell), " again, ", why_not_there(s)));
    } else if (s.life != Life::absent && !may_again) {
      say(cat("makes ", cell_text(op, cell), ", ", why_not_there(s)));
    }
    s.life = Life::present;
    s.has_copy = false;
    s.touched = at_;
  }

  void add(const Op& op, const Touch& cell, CellState& s) {
    meet(s, cell);
    const bool may_again = cell.kind == CellKind::weight_grad && s.life == Life::ended;
    if ((s.life == Life::ended && !may_again) || s.life == Life::on_host)
      say(cat("adds to ", cell_text(op, cell), ", ", why_not_there(s)));
    if (s.used_by != kNoOp)
      say(cat("changes ", cell_text(op, cell), " after ", op_text(s.used_by), " has used it"));
    if (cell.kind == CellKind::weight_grad) unreduced_[cell.item] = at_;
    if (cell.kind == CellKind::number && op.what != OpKind::sum) {
      if (is_summed_[cell.item]) say(cat("adds to ", cell_text(op, cell), " after its sum"));
      unsummed_[cell.item] = at_;
    }
    s.life = Life::present;
    s.has_copy = false;
    s.touched = at_;
  }

  void move(const Op& op, const Touch& cell, CellState& s, Life from, Life to, const char* verb) {
    meet(s, cell, from);
    if (s.life != from)
      say(cat(verb, " ", cell_text(op, cell), ", ",
              from == Life::on_host && s.life == Life::present ? "which is not in host memory"
                                                               : why_not_there(s)));
    if ((op.flags & kUnchanged) && !s.has_copy)
      say(cat("drops ", cell_text(op, cell), ", of which host memory has no equal copy"));
    s.life = to;
    s.has_copy = from == Life::on_host;
    s.touched = at_;
  }

  std::size_t place_of(const Op& op) const {
    return op.item * static_cast<std::size_t>(tables_.num_micro) + static_cast<std::size_t>(op.micro);
  }

  void count_forward(const Op& op) {
    const std::size_t at = place_of(op);
    if (op.part != 0) return;
    if (forwards_[at]) say("runs a second time in this step");
    num_forwards_[op.item] += forwards_[at] ? 0 : 1;
    forwards_[at] = true;
  }

  void take_gradient(const Op& op) {
    std::uint32_t& shared = shared_[op.item];
    if (shared != kNoOp)
      say(cat("comes after ", op_text(shared), ", which has summed the gradient of bucket ",
              tables_.buckets[op.item].name, " over the ranks that share it"));
    if (op.flags & kOfShard) {
      shared = at_;
      return;
    }
    if (op.flags & kOfServer) return;  // the workers' gradients
    if (unreduced_[op.item] == kNoOp)
      say(cat("reduces the gradient of bucket ", tables_.buckets[op.item].name,
              ", to which nothing was added since its last reduction"));
    unreduced_[op.item] = kNoOp;
  }

  void expect_old_version(const Op& op) {
    const auto& bucket = tables_.buckets[op.item];
    if (op.flags & kAhead) {
      if (!bucket.delayed) say(cat("gathers bucket ", bucket.name, " ahead, which is no version behind"));
      if (made_ahead_[op.item]) say(cat("gathers bucket ", bucket.name, " ahead a second time"));
      made_ahead_[op.item] = true;
    }
    if (!bucket.delayed) return;
    const auto* step = std::find_if(sequence_.ops.data(), sequence_.ops.data() + at_, [&](const Op& earlier) {
      return earlier.what == OpKind::step && earlier.item == op.item;
    });
    if (step != sequence_.ops.data() + at_)
      say(cat("gathers bucket ", bucket.name, " after ",
              op_text(static_cast<std::uint32_t>(step - sequence_.ops.data())),
              ", but the next step computes with the version before it"));
  }

  // What is gathered ahead is the next step's.
  void expect_its_version(const Op& op) {
    for (const std::uint32_t bucket : tables_.segments[op.item].buckets) {
      reads_ahead_[bucket] = at_;
      if (made_ahead_[bucket])
        say(cat("computes with bucket ", tables_.buckets[bucket].name,
                " ahead, which was gathered for the next step already"));
    }
  }

  void take_number(const Op& op) {
    unsummed_[op.item] = kNoOp;
    is_summed_[op.item] = true;
  }

  void end_of_step() {
    for (std::uint32_t bucket = 0; bucket < unreduced_.size(); ++bucket)
      if (unreduced_[bucket] != kNoOp)
        say_at_end(unreduced_[bucket], cat("makes a gradient of bucket ", tables_.buckets[bucket].name,
                                           " that is in no reduction"));
    for (std::uint32_t bucket = 0; bucket < reads_ahead_.size(); ++bucket)
      if (reads_ahead_[bucket] != kNoOp && !made_ahead_[bucket])
        say_at_end(reads_ahead_[bucket], cat("computes with bucket ", tables_.buckets[bucket].name,
                                             " ahead, which is not gathered for the next step"));
    for (std::uint32_t number = 0; number < unsummed_.size(); ++number)
      if (unsummed_[number] != kNoOp)
        say_at_end(unsummed_[number], cat("adds to Number(", tables_.numbers[number].name,
                                          ") after its last sum, or "
                                          "it has none"));
    for (std::uint32_t segment = 0; segment < num_forwards_.size(); ++segment)
      if (num_forwards_[segment] != 0 && num_forwards_[segment] != tables_.num_micro)
        out_.push_back({class_, static_cast<std::uint32_t>(sequence_.ops.size()),
                        cat("segment ", segment, " runs forward for ", num_forwards_[segment], " of ",
                            tables_.num_micro, " micro-batches")});
    for (std::size_t at = 0; at < forwards_.size(); ++at)
      if (trains_ && forwards_[at] && !backwards_[at]) {
        const auto num_micro = static_cast<std::size_t>(tables_.num_micro);
        out_.push_back({class_, static_cast<std::uint32_t>(sequence_.ops.size()),
                        cat("segment ", at / num_micro, " runs forward for micro-batch ", at % num_micro,
                            ", but never backward")});
        break;
      }
    for (std::uint32_t cell = 0; cell < cells_.size(); ++cell) leftovers(cell, cells_[cell]);
  }

  void leftovers(std::uint32_t number, const CellState& s) {
    if (!s.is_known || s.touched == kNoOp) return;
    if (s.life == Life::ended && s.at_start == Life::absent) return;
    const Cell cell = touches_.cell(number);
    if (cell.kind == CellKind::number) return;
    if (outlives_step(cell, tables_)) {
      if (s.life != s.at_start)
        say_at_end(s.touched,
                   cat("leaves ", to_text(cell, tables_), " elsewhere than at the start of the step"));
    } else if (s.life == Life::present || s.life == Life::on_host) {
      say_at_end(s.touched, cat("touches ", to_text(cell, tables_), " last, and nothing ends it"));
    }
  }

  const Tables& tables_;
  const Sequence& sequence_;
  const std::uint32_t class_;
  std::vector<Problem>& out_;
  const Touches& touches_;
  std::uint32_t at_ = 0;
  std::vector<CellState> cells_;
  std::vector<std::uint32_t> unreduced_;    // per bucket: the last op whose gradient is in no reduction yet
  std::vector<std::uint32_t> shared_;       // per bucket: its reduce with kOfShard
  std::vector<std::uint32_t> unsummed_;     // per number: the same for its sum
  std::vector<bool> has_step_;              // per bucket
  std::vector<bool> made_ahead_;            // per bucket: gathered ahead in this step
  std::vector<std::uint32_t> reads_ahead_;  // per bucket: the last forward ahead that computes with it
  std::vector<bool> is_summed_;             // per number: summed over some axes
  std::vector<bool> forwards_, backwards_;  // per segment and micro-batch
  std::vector<std::int32_t> num_forwards_;  // per segment
  const bool trains_;                       // false: forwards alone
};

}  // namespace

void check_cells(const Program& program, std::uint32_t rank_class, const Touches& touches,
                 std::vector<Problem>& out) {
  CellCheck(program, rank_class, touches, out).run();
}

}  // namespace tessera::program
