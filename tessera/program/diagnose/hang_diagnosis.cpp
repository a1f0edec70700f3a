#include "tessera/program/diagnose/hang_diagnosis.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "tessera/base/text.hpp"
#include "tessera/program/diagnose/op_description.hpp"
#include "tessera/program/ir/ranks.hpp"

namespace tessera::program {
namespace {

// Of a group op only so many late members are looked at: one is told, and thousands may be late.
constexpr std::size_t kMostLate = 8;

enum class Why { late, lacking, other_op, not_met };

// A rank that is not where another waits for it. `op` is its op that would end the wait; -1: its program has
// none.
struct Late {
  int rank = 0;
  std::int32_t op = -1;
  Why why = Why::late;
};

struct Wait {
  int rank = 0;
  std::int32_t op = -1;
  std::int64_t step = 0;
  double since_seconds = 0;
  Late other;
};

class Search {
 public:
  Search(const Program& program, std::span<const RankState> states, double now_seconds)
      : program_(program),
        states_(states),
        now_(now_seconds),
        sets_(sets_of(program.tables)),
        waits_of_(states.size()) {
    for (const Sequence& sequence : program.classes) {
      auto& groups = group_ops_.emplace_back(program.tables.axis_sets.size());
      for (std::size_t i = 0; i < sequence.ops.size(); ++i)
        if (is_group_op(sequence.ops[i]))
          groups[static_cast<std::size_t>(sequence.ops[i].along)].push_back(static_cast<std::int32_t>(i));
    }
    for (int rank = 0; rank < num_ranks(); ++rank) {
      for (const LaneState& lane : state(rank).lanes)
        if (!lane.recent.empty() && lane.recent.back().under_way())
          longest_ = std::max(longest_, now_ - lane.recent.back().started_seconds);
    }
    for (int rank = 0; rank < num_ranks(); ++rank) look_at(rank);
  }

  Verdict verdict() const {
    for (const auto find : {&Search::silence, &Search::another_program, &Search::disagreement, &Search::chain,
                            &Search::ring, &Search::alone})
      if (const auto found = (this->*find)()) return *found;
    return {-1, -1, "no rank waits for another"};
  }

 private:
  int num_ranks() const { return static_cast<int>(states_.size()); }
  const RankState& state(int rank) const { return states_[static_cast<std::size_t>(rank)]; }
  std::size_t class_of(int rank) const {
    return program_.tables.class_of_rank[static_cast<std::size_t>(rank)];
  }
  const Sequence& sequence(int rank) const { return program_.classes[class_of(rank)]; }
  const Op& op_of(int rank, std::int32_t op) const {
    return sequence(rank).ops[static_cast<std::size_t>(op)];
  }
  bool has_op(int rank, std::int32_t op) const {
    return op >= 0 && op < static_cast<std::int32_t>(sequence(rank).ops.size());
  }
  bool is_finished(int rank) const { return state(rank).is_finished(); }
  // For a good part of the time that others have waited: a busy machine makes a rank late, but not that late.
  bool is_silent(int rank) const {
    return !is_finished(rank) && now_ - state(rank).beat_seconds > std::max(kSilentSeconds, longest_ / 2);
  }
  std::string state_text(int rank) const { return described(program_, rank, state(rank), now_); }

  // Has the rank come to this op in this step? What it does outside ops lies before them or after them.
  bool has_started(int rank, std::int64_t step, std::int32_t op) const {
    const Op& wanted = op_of(rank, op);
    for (const LaneState& lane : state(rank).lanes) {
      if (lane.axes != wanted.lane.axes || lane.direction != wanted.lane.direction || lane.recent.empty())
        continue;
      const Activity& at = lane.recent.back();
      if (at.step != step) return at.step > step;
      if (at.op < 0) return at.doing != Doing::reading_data;
      return at.op > op || (at.op == op && at.started_seconds > 0);
    }
    return is_finished(rank);
  }

  void look_at(int rank) {
    for (const LaneState& lane : state(rank).lanes) {
      if (lane.recent.empty() || !lane.recent.back().under_way()) continue;
      const Activity& at = lane.recent.back();
      if (at.doing == Doing::meeting) wait_for(rank, at, not_met());
      if (at.doing != Doing::communicating && at.doing != Doing::sending) continue;
      if (!has_op(rank, at.op)) continue;
      const Op& op = op_of(rank, at.op);
      wait_for(rank, at, is_group_op(op) ? late_for_group(rank, at, op) : late_for_transfer(rank, at, op));
    }
  }

  void wait_for(int rank, const Activity& at, const std::vector<Late>& late) {
    for (const Late& other : late)
      if (other.rank != rank) {
        waits_.push_back({rank, at.op, at.step, at.started_seconds, other});
        waits_of_[static_cast<std::size_t>(rank)].push_back(waits_.size() - 1);
      }
  }

  // Those that are at something else, before the first step or between two.
  std::vector<Late> not_met() const {
    std::vector<Late> late;
    for (int rank = 0; rank < num_ranks() && late.size() < kMostLate; ++rank) {
      const Activity* at = state(rank).now();
      if (!at || at->doing != Doing::meeting || !at->under_way()) late.push_back({rank, -1, Why::not_met});
    }
    return late;
  }

  // Found once for all members that are at this op.
  const std::vector<Late>& late_for_group(int rank, const Activity& at, const Op& op) {
    const auto along = static_cast<std::size_t>(op.along);
    const auto peers = sets_[along].peers(rank);
    const auto [found, is_new] = late_.try_emplace({class_of(rank), at.op, at.step, peers.front()});
    if (!is_new) return found->second;
    const auto& mine = group_ops_[class_of(rank)][along];
    const auto k = static_cast<std::size_t>(std::ranges::lower_bound(mine, at.op) - mine.begin());
    for (const auto peer : peers) {
      const int other = static_cast<int>(peer);
      const auto& theirs = group_ops_[class_of(other)][along];
      Late late{other, k < theirs.size() ? theirs[k] : -1, Why::late};
      if (late.op < 0) {
        late.why = Why::lacking;
      } else if (op_of(other, late.op).what != op.what || op_of(other, late.op).item != op.item) {
        late.why = Why::other_op;
      } else if (has_started(other, at.step, late.op)) {
        continue;
      }
      found->second.push_back(late);
      if (found->second.size() == kMostLate) break;
    }
    return found->second;
  }

  std::vector<Late> late_for_transfer(int rank, const Activity& at, const Op& op) const {
    const auto& set = sets_[static_cast<std::size_t>(op.along)];
    const int other = static_cast<int>(set.neighbour(rank, op.hop));
    const OpKind wanted = op.what == OpKind::send ? OpKind::receive : OpKind::send;
    const auto& ops = sequence(other).ops;
    const auto theirs = std::ranges::find_if(ops, [&](const Op& o) {
      return o.what == wanted && o.along == op.along && o.hop == -op.hop && named_cell(o) == named_cell(op);
    });
    if (theirs == ops.end()) return {{other, -1, Why::lacking}};
    const auto index = static_cast<std::int32_t>(theirs - ops.begin());
    if (has_started(other, at.step, index)) return {};
    return {{other, index, Why::late}};
  }

  std::string waiting_text(const Wait& wait) const {
    const std::string lasting = cat(" for ", seconds_text(now_ - wait.since_seconds));
    if (wait.op < 0) return cat("rank ", wait.rank, " has waited to meet rank ", wait.other.rank, lasting);
    return cat("rank ", wait.rank, " is at ", described(program_, wait.rank, wait.op), " of step ", wait.step,
               lasting);
  }

  std::string other_waiters(const Wait& told) const {
    std::vector<int> others;
    for (int rank = 0; rank < num_ranks(); ++rank)
      if (rank != told.rank && rank != told.other.rank && waits(rank)) others.push_back(rank);
    if (others.empty()) return "";
    return cat("; ", ranks_text(others), others.size() == 1 ? " waits too" : " wait too");
  }

  // What the culprit rank owes.
  std::string owed_text(const Wait& wait) const {
    if (wait.op < 0) return "never came";
    const Op& mine = op_of(wait.rank, wait.op);
    if (is_group_op(mine)) return "never came to it";
    return cat("never issued the ", mine.what == OpKind::send ? "receive" : "send");
  }

  bool waits(int rank) const { return !waits_of_[static_cast<std::size_t>(rank)].empty(); }

  Verdict about(int rank, std::string sentence) const {
    const Activity* at = state(rank).now();
    return {rank, at ? at->op : -1, std::move(sentence)};
  }

  // Wherever it stands; of several the one that fell silent first.
  std::optional<Verdict> silence() const {
    int silent = -1, other = -1;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      if (!is_silent(rank)) {
        if (other < 0 && !is_finished(rank)) other = rank;
      } else if (silent < 0 || state(rank).beat_seconds < state(silent).beat_seconds) {
        silent = rank;
      }
    }
    if (silent < 0) return std::nullopt;
    std::string sentence = cat("rank ", silent, " is ", state_text(silent));
    if (other >= 0) sentence += cat("; rank ", other, " is ", state_text(other));
    return about(silent, sentence);
  }

  std::optional<Verdict> another_program() const {
    for (int rank = 0; rank < num_ranks(); ++rank)
      for (const LaneState& lane : state(rank).lanes)
        if (!lane.recent.empty() && lane.recent.back().op >= 0 && !has_op(rank, lane.recent.back().op))
          return Verdict{rank, lane.recent.back().op,
                         cat("rank ", rank, " is in op ", lane.recent.back().op, ", but its program has ",
                             sequence(rank).ops.size(),
                             " ops here: it runs another program. Do all hosts have the same run file?")};
    return std::nullopt;
  }

  // A program that lacks an op, or has another in its place. Of several the one that most others contradict.
  std::optional<Verdict> disagreement() const {
    std::map<int, int> accusers;
    const Wait* told = nullptr;
    for (const Wait& wait : waits_) {
      if (wait.other.why != Why::lacking && wait.other.why != Why::other_op) continue;
      if (++accusers[wait.other.rank] > (told ? accusers[told->other.rank] : 0)) told = &wait;
    }
    if (!told) return std::nullopt;
    const int culprit = told->other.rank;
    if (told->other.why == Why::lacking)
      return Verdict{culprit, told->op,
                     cat(waiting_text(*told), "; rank ", culprit, " ", owed_text(*told),
                         ": its program has none. It is ", state_text(culprit), other_waiters(*told))};
    return Verdict{
        culprit, told->other.op,
        cat(waiting_text(*told), "; rank ", culprit, " has ", described(program_, culprit, told->other.op),
            " in its place: their programs have these ops in different orders. It is ", state_text(culprit),
            other_waiters(*told))};
  }

  // The rank at the end of the chain of waits: it waits for nobody.
  std::optional<Verdict> chain() const {
    const Wait* told = nullptr;
    for (const Wait& wait : waits_)
      if (!waits(wait.other.rank) && (!told || wait.since_seconds < told->since_seconds)) told = &wait;
    if (!told) return std::nullopt;
    const int culprit = told->other.rank;
    return about(culprit, cat(waiting_text(*told), "; rank ", culprit, " ", owed_text(*told), ": it is ",
                              state_text(culprit), other_waiters(*told)));
  }

  // Everybody who is waited for waits: following the waits leads round.
  std::optional<Verdict> ring() const {
    if (waits_.empty()) return std::nullopt;
    std::vector<bool> is_seen(states_.size());
    int rank = waits_.front().rank;
    while (!is_seen[static_cast<std::size_t>(rank)]) {
      is_seen[static_cast<std::size_t>(rank)] = true;
      rank = first_wait(rank).other.rank;
    }
    const Wait& first = first_wait(rank);
    std::string sentence = waiting_text(first);
    int last = rank;
    for (int at = first.other.rank; at != rank; at = first_wait(at).other.rank) {
      const Wait& wait = first_wait(at);
      sentence += cat(", rank ", at, " at ", described(program_, at, wait.op), " for ",
                      seconds_text(now_ - wait.since_seconds));
      last = at;
    }
    return Verdict{
        last, first_wait(last).op,
        cat(sentence, ": they wait for each other, so their programs have these ops in different orders",
            other_waiters(first))};
  }
  const Wait& first_wait(int rank) const { return waits_[waits_of_[static_cast<std::size_t>(rank)].front()]; }

  // Nobody waits for another, but something that should be short is not. A rank that is in the middle of
  // something comes before one that has ended all it began.
  std::optional<Verdict> alone() const {
    int longest = -1;
    std::pair<bool, double> first;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      const Activity at = state(rank).busiest();
      const std::pair from(at.ended_seconds > 0, at.issued_seconds);
      if (!is_finished(rank) && (longest < 0 || from < first)) longest = rank, first = from;
    }
    if (longest < 0) return std::nullopt;
    std::string sentence = cat("rank ", longest, " is ", state_text(longest));
    const Activity* at = state(longest).now();
    if (at && at->doing == Doing::communicating && has_op(longest, at->op) &&
        is_group_op(op_of(longest, at->op)))
      sentence +=
          "; all its ranks have come to it, and it does not end: one of them sleeps in it, or the network "
          "does not carry it";
    return about(longest, sentence);
  }

  const Program& program_;
  std::span<const RankState> states_;
  double now_;
  std::vector<mesh::AxisSet> sets_;
  std::vector<std::vector<std::vector<std::int32_t>>> group_ops_;  // by class and axis set, in order
  double longest_ = 0;                                             // something has been under way
  std::map<std::tuple<std::size_t, std::int32_t, std::int64_t, mesh::Rank>, std::vector<Late>> late_;
  std::vector<Wait> waits_;
  std::vector<std::vector<std::size_t>> waits_of_;  // by rank: into waits_
};

}  // namespace

Verdict find_culprit(const Program& program, std::span<const RankState> states, double now_seconds) {
  return Search(program, states, now_seconds).verdict();
}

}  // namespace tessera::program
