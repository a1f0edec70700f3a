#include "tessera/program/stuck.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "tessera/base/text.hpp"
#include "tessera/program/ranks.hpp"
#include "tessera/program/text.hpp"

namespace tessera::program {
namespace {

// A rank that waits for another. `theirs` is the op of the other that would end the wait; -1: its program has none.
struct Wait {
  int rank = 0, other = 0;
  std::int32_t op = -1, theirs = -1;
  std::int64_t step = 0;
  double since_seconds = 0;
  enum class Why { late, lacking, other_op, not_there } why = Why::late;
};

std::string seconds_text(double seconds) { return cat(fixed(seconds, 1), " s"); }

const char* verb(What what) {
  switch (what) {
    case What::forward:
      return "forward of ";
    case What::recompute:
      return "recomputation of ";
    case What::backward:
      return "backward of ";
    case What::backward_input:
      return "input half of the backward of ";
    case What::backward_weight:
      return "weight half of the backward of ";
    case What::gather:
      return "gather of ";
    case What::reduce:
      return "reduction of ";
    case What::step:
      return "optimizer step of ";
    case What::send:
      return "send of ";
    case What::receive:
      return "receive of ";
    case What::exchange:
      return "exchange of ";
    case What::sum:
      return "sum of ";
    case What::offload:
      return "offload of ";
    case What::fetch:
      return "fetch of ";
    case What::free:
      return "free of ";
  }
  return "";
}

std::string item_text(const Op& op, const Tables& tables) {
  if (op.what <= What::backward_weight) return tables.units[tables.segments[op.item].unit].name;
  if (op.what == What::sum) return tables.numbers[op.item].name;
  if (!names_cell(op.what)) return tables.buckets[op.item].name;
  const Cell cell = named_cell(op);
  const bool is_gradient = cell.kind == CellKind::gradient;
  if (is_gradient || cell.kind == CellKind::value)
    return cat(is_gradient ? "gradient of " : "value ", tables.values[cell.item].name);
  return "a cell";
}

class Search {
 public:
  Search(const Program& program, std::span<const RankState> states, double now_seconds)
      : program_(program), states_(states), now_(now_seconds), sets_(sets_of(program.tables)) {
    for (int rank = 0; rank < static_cast<int>(states.size()); ++rank) look_at(rank);
  }

  Verdict verdict() const {
    for (const auto find :
         {&Search::silence, &Search::disagreement, &Search::chain, &Search::circle, &Search::alone})
      if (const auto found = (this->*find)()) return *found;
    return {-1, -1, "no rank waits for another"};
  }

 private:
  const Sequence& sequence(int rank) const {
    return program_.classes[program_.tables.class_of_rank[static_cast<std::size_t>(rank)]];
  }
  const Op& op_of(int rank, std::int32_t op) const {
    return sequence(rank).ops[static_cast<std::size_t>(op)];
  }
  bool is_silent(int rank) const { return now_ - beat(rank) > kSilentSeconds; }

  double beat(int rank) const { return states_[static_cast<std::size_t>(rank)].beat_seconds; }

  // Has the rank come to this op in this step? What it does outside ops lies before them or after them.
  bool has_started(int rank, std::int64_t step, std::int32_t op) const {
    const Op& wanted = op_of(rank, op);
    for (const LaneState& lane : states_[static_cast<std::size_t>(rank)].lanes) {
      if (lane.axes != wanted.lane.axes || lane.direction != wanted.lane.direction || lane.recent.empty())
        continue;
      const Activity& at = lane.recent.back();
      if (at.step != step) return at.step > step;
      if (at.op < 0) return at.doing != Doing::reading_data;
      return at.op > op || (at.op == op && at.started_seconds > 0);
    }
    return false;
  }

  // Where the other's sequence has the k-th op of all members of the group along these axes.
  std::int32_t group_op(int other, std::int16_t along, int k) const {
    const auto& ops = sequence(other).ops;
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (is_group_op(ops[i]) && ops[i].along == along && k-- == 0) return static_cast<std::int32_t>(i);
    return -1;
  }

  std::int32_t transfer(int other, const Op& mine) const {
    const What wanted = mine.what == What::send ? What::receive : What::send;
    const auto& ops = sequence(other).ops;
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (ops[i].what == wanted && ops[i].along == mine.along && ops[i].hop == -mine.hop &&
          named_cell(ops[i]) == named_cell(mine))
        return static_cast<std::int32_t>(i);
    return -1;
  }

  void look_at(int rank) {
    for (const LaneState& lane : states_[static_cast<std::size_t>(rank)].lanes) {
      if (lane.recent.empty() || !lane.recent.back().under_way()) continue;
      const Activity& at = lane.recent.back();
      if (at.doing == Doing::meeting) look_at_meeting(rank, at);
      if (at.doing != Doing::communicating && at.doing != Doing::sending) continue;
      const Op& op = op_of(rank, at.op);
      if (is_group_op(op))
        look_at_group(rank, at, op);
      else
        look_at_transfer(rank, at, op);
    }
  }

  void look_at_meeting(int rank, const Activity& at) {
    for (int other = 0; other < static_cast<int>(states_.size()); ++other) {
      const Activity* now = states_[static_cast<std::size_t>(other)].now();
      if (!now || now->doing == Doing::starting)
        waits_.push_back({rank, other, -1, -1, 0, at.started_seconds, Wait::Why::not_there});
    }
  }

  void look_at_group(int rank, const Activity& at, const Op& op) {
    int k = 0;
    for (std::int32_t i = 0; i < at.op; ++i)
      k += is_group_op(op_of(rank, i)) && op_of(rank, i).along == op.along;
    for (const auto peer : sets_[static_cast<std::size_t>(op.along)].peers(rank)) {
      const int other = static_cast<int>(peer);
      if (other == rank) continue;
      Wait wait{rank, other, at.op, group_op(other, op.along, k), at.step, at.started_seconds};
      if (wait.theirs < 0) {
        wait.why = Wait::Why::lacking;
      } else if (op_of(other, wait.theirs).what != op.what || op_of(other, wait.theirs).item != op.item) {
        wait.why = Wait::Why::other_op;
      } else if (has_started(other, at.step, wait.theirs)) {
        continue;
      }
      waits_.push_back(wait);
    }
  }

  void look_at_transfer(int rank, const Activity& at, const Op& op) {
    const auto& set = sets_[static_cast<std::size_t>(op.along)];
    const auto peers = set.peers(rank);
    const auto place = set.coordinate(rank) + op.hop;
    if (place < 0 || place >= static_cast<std::int64_t>(peers.size())) return;
    const int other = static_cast<int>(peers[static_cast<std::size_t>(place)]);
    Wait wait{rank, other, at.op, transfer(other, op), at.step, at.started_seconds};
    if (wait.theirs < 0) wait.why = Wait::Why::lacking;
    if (wait.theirs < 0 || !has_started(other, at.step, wait.theirs)) waits_.push_back(wait);
  }

  std::string waiting_text(const Wait& wait) const {
    if (wait.op < 0)
      return cat("rank ", wait.rank, " has waited to meet rank ", wait.other, " for ",
                 seconds_text(now_ - wait.since_seconds));
    return cat("rank ", wait.rank, " is at ", spoken(program_, wait.rank, wait.op), " of step ", wait.step,
               " for ", seconds_text(now_ - wait.since_seconds));
  }

  std::string other_waiters(const Wait& told) const {
    std::vector<std::string> others;
    for (int rank = 0; rank < static_cast<int>(states_.size()); ++rank)
      if (rank != told.rank && rank != told.other &&
          std::ranges::any_of(waits_, [&](const Wait& wait) { return wait.rank == rank; }))
        others.push_back(cat(rank));
    if (others.empty()) return "";
    const bool one = others.size() == 1;
    if (others.size() > 8) others = {cat(others.front(), " to ", others.back())};
    return cat("; rank", one ? " " : "s ", join(others, ", "), one ? " waits too" : " wait too");
  }

  std::string state_text(int rank) const {
    return spoken(program_, rank, states_[static_cast<std::size_t>(rank)], now_);
  }

  // A rank without a sign of life, wherever it stands; of several the one that fell silent first.
  std::optional<Verdict> silence() const {
    int silent = -1;
    for (int rank = 0; rank < static_cast<int>(states_.size()); ++rank)
      if (is_silent(rank) && (silent < 0 || beat(rank) < beat(silent))) silent = rank;
    if (silent < 0) return std::nullopt;
    const Activity* at = states_[static_cast<std::size_t>(silent)].now();
    Verdict verdict{silent, at ? at->op : -1, cat("rank ", silent, " is ", state_text(silent))};
    for (int rank = 0; rank < static_cast<int>(states_.size()); ++rank)
      if (!is_silent(rank)) {
        verdict.sentence += cat("; rank ", rank, " is ", state_text(rank));
        break;
      }
    return verdict;
  }

  // What the guilty rank owes.
  std::string owed_text(const Wait& wait) const {
    const Op& mine = op_of(wait.rank, wait.op);
    if (is_group_op(mine)) return cat("never came to it");
    return cat("never issued the ", mine.what == What::send ? "receive" : "send");
  }

  // A program that lacks an op, or has another in its place. Of several the one that most others contradict.
  std::optional<Verdict> disagreement() const {
    std::map<int, int> accusers;
    const Wait* told = nullptr;
    for (const Wait& wait : waits_) {
      if (wait.why != Wait::Why::lacking && wait.why != Wait::Why::other_op) continue;
      if (++accusers[wait.other] > (told ? accusers[told->other] : 0)) told = &wait;
    }
    if (!told) return std::nullopt;
    if (told->why == Wait::Why::lacking)
      return Verdict{told->other, told->op,
                     cat(waiting_text(*told), "; rank ", told->other, " ", owed_text(*told),
                         ": its program has none. It is ", state_text(told->other), other_waiters(*told))};
    return Verdict{
        told->other, told->theirs,
        cat(waiting_text(*told), "; rank ", told->other, " has ", spoken(program_, told->other, told->theirs),
            " in its place: their programs have these ops in different orders. It is ",
            state_text(told->other), other_waiters(*told))};
  }

  bool waits(int rank) const {
    return std::ranges::any_of(waits_, [&](const Wait& wait) { return wait.rank == rank; });
  }

  // The rank at the end of the chain of waits: it waits for nobody.
  std::optional<Verdict> chain() const {
    const Wait* told = nullptr;
    for (const Wait& wait : waits_) {
      if (waits(wait.other)) continue;
      if (!told || wait.since_seconds < told->since_seconds) told = &wait;
    }
    if (!told) return std::nullopt;
    const Activity* at = states_[static_cast<std::size_t>(told->other)].now();
    return Verdict{told->other, at ? at->op : -1,
                   cat(waiting_text(*told), "; rank ", told->other,
                       told->op < 0 ? std::string(" never came") : cat(" ", owed_text(*told)), ": it is ",
                       state_text(told->other), other_waiters(*told))};
  }

  // Ranks that wait for each other.
  std::optional<Verdict> circle() const {
    for (const Wait& wait : waits_)
      for (const Wait& back : waits_)
        if (back.rank == wait.other && back.other == wait.rank)
          return Verdict{
              back.rank, back.op,
              cat(waiting_text(wait), ", rank ", back.rank, " at ", spoken(program_, back.rank, back.op),
                  " for ", seconds_text(now_ - back.since_seconds),
                  ": they wait for each other, so their programs have these ops in different "
                  "orders",
                  other_waiters(wait))};
    return std::nullopt;
  }

  // Nobody waits for another, but something that should be short is not.
  std::optional<Verdict> alone() const {
    int longest = -1;
    double since = std::numeric_limits<double>::max();
    for (int rank = 0; rank < static_cast<int>(states_.size()); ++rank) {
      const RankState& state = states_[static_cast<std::size_t>(rank)];
      const Activity* at = state.now();
      const double from = at ? at->issued_seconds : 0;
      if (from < since) longest = rank, since = from;
    }
    if (longest < 0) return std::nullopt;
    const Activity* at = states_[static_cast<std::size_t>(longest)].now();
    return Verdict{longest, at ? at->op : -1, cat("rank ", longest, " is ", state_text(longest))};
  }

  const Program& program_;
  std::span<const RankState> states_;
  double now_;
  std::vector<mesh::AxisSet> sets_;
  std::vector<Wait> waits_;
};

std::string doing_text(const Program& program, int rank, const Activity& at, double now_seconds) {
  const double since = at.started_seconds > 0 ? at.started_seconds : at.issued_seconds;
  const std::string lasting = cat(" for ", seconds_text(now_seconds - since));
  const std::string of_step = at.step > 0 ? cat(" of step ", at.step) : "";
  if (at.ended_seconds > 0) {
    const std::string what = at.op >= 0 ? spoken(program, rank, at.op) : std::string("its work");
    return cat("past ", what, of_step, " since ", seconds_text(now_seconds - at.ended_seconds));
  }
  switch (at.doing) {
    case Doing::starting:
      return cat("starting", lasting);
    case Doing::meeting:
      return cat("waiting to meet the other ranks", lasting);
    case Doing::reading_data:
      return cat("reading the data", of_step, lasting);
    case Doing::writing:
      return cat("writing metrics or the trace", of_step, lasting);
    case Doing::finished:
      return cat("finished", lasting);
    case Doing::sending:
      return cat("waiting for its ", spoken(program, rank, at.op), " to be received", lasting);
    case Doing::computing:
    case Doing::communicating:
      break;
  }
  return cat(at.started_seconds > 0 ? "in " : "waiting to start ", spoken(program, rank, at.op), of_step,
             lasting);
}

}  // namespace

std::string spoken(const Program& program, int rank, std::int32_t op) {
  const Tables& tables = program.tables;
  const auto& ops = program.classes[tables.class_of_rank[static_cast<std::size_t>(rank)]].ops;
  if (op < 0 || op >= static_cast<std::int32_t>(ops.size())) return "no op";
  const Op& at = ops[static_cast<std::size_t>(op)];
  std::string out = cat("op ", op, " (", word(at, tables), ", ", verb(at.what), item_text(at, tables));
  if (at.micro != kOfStep) out += cat(", micro-batch ", at.micro);
  if (at.what == What::send || at.what == What::receive) {
    const auto set = sets_of(tables)[static_cast<std::size_t>(at.along)];
    const auto peers = set.peers(rank);
    const auto place = static_cast<std::size_t>(set.coordinate(rank) + at.hop);
    if (place < peers.size()) out += cat(at.what == What::send ? " to rank " : " from rank ", peers[place]);
  }
  return out + ")";
}

std::string spoken(const Program& program, int rank, const RankState& state, double now_seconds) {
  if (state.beat_seconds == 0) return "not heard of since it was started";
  const Activity at = state.busiest();
  std::string doing =
      at.issued_seconds > 0 ? doing_text(program, rank, at, now_seconds) : std::string("starting");
  if (const Activity* main = state.now(); main && *main != at && main->op >= 0 && main->started_seconds == 0)
    doing += cat(", before ", spoken(program, rank, main->op));
  const double silence = now_seconds - state.beat_seconds;
  return silence > kSilentSeconds ? cat("silent for ", seconds_text(silence), ", last seen ", doing) : doing;
}

Verdict find_guilty(const Program& program, std::span<const RankState> states, double now_seconds) {
  return Search(program, states, now_seconds).verdict();
}

}  // namespace tessera::program
