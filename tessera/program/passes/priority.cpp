#include "tessera/program/passes/priority.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace tessera::program {
namespace {

// The last reduction of a bucket.
struct Reduction {
  std::uint32_t at = 0;       // in the draft
  std::uint32_t used_at = 0;  // the first op that computes with the bucket
  double ready = 0;           // seconds after which its gradient is there
  double seconds = 0;
  std::uint32_t place = 0;  // the op in front of which it comes to stand
};

class PriorityPass {
 public:
  PriorityPass(Draft& draft, const Tables& tables, const SecondsOf& seconds)
      : draft_(draft), tables_(tables), seconds_(seconds) {}

  void run() {
    find_times();
    for (auto& [lane, reductions] : movable()) {
      order(reductions);
      for (std::size_t i = 0; i < reductions.size(); ++i) moved_[reductions[i].at] = {reductions[i].place, i};
    }
    follow();
    apply();
  }

 private:
  // In front of which op, and as which of those that stand there.
  struct Move {
    std::uint32_t place = 0;
    std::size_t number = 0;
  };

  // By the compute lane alone: it is taken to wait for nobody.
  void find_times() {
    double now = 0;
    used_at_ = first_uses(draft_, tables_);
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at) {
      const Op& op = draft_.ops[at];
      begins_.push_back(now);
      if (!is_compute(op.what)) continue;
      now += seconds_(op);
      end_ = at + 1;
    }
    // Behind the last computation come what follows its transfers, and reductions that keep their places.
    for (; end_ < draft_.ops.size() && draft_.ops[end_].what != OpKind::sum; ++end_) {
    }
  }

  std::map<Lane, std::vector<Reduction>> movable() const {
    std::vector<std::uint32_t> last(tables_.buckets.size(), std::numeric_limits<std::uint32_t>::max());
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at)
      if (const Op& op = draft_.ops[at]; op.what == OpKind::reduce && !(op.flags & kOfShard))
        last[op.item] = at;
    std::map<Lane, std::vector<Reduction>> out;
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at) {
      const Op& op = draft_.ops[at];
      if (op.what != OpKind::reduce || last[op.item] != at || tables_.meets_other_stages(op.along)) continue;
      if (op.lane.kind != LaneKind::communication) continue;
      out[op.lane].push_back(
          {.at = at, .used_at = used_at_[op.item], .ready = begins_[at], .seconds = seconds_(op)});
    }
    return out;
  }

  void order(std::vector<Reduction>& reductions) const {
    std::vector<Reduction> left = std::move(reductions);
    reductions.clear();
    double now = 0;
    while (!left.empty()) {
      const double first = std::ranges::min(left, {}, &Reduction::ready).ready;
      now = std::max(now, first);
      auto next = left.end();
      for (auto it = left.begin(); it != left.end(); ++it)
        if (it->ready <= now && (next == left.end() || it->used_at < next->used_at)) next = it;
      next->place = std::max(next->at, place_at(now));
      now += next->seconds;
      reductions.push_back(*next);
      left.erase(next);
    }
    // A lane keeps the order in which its ops stand.
    for (std::size_t i = 1; i < reductions.size(); ++i)
      reductions[i].place = std::max(reductions[i].place, reductions[i - 1].place);
  }

  // The first op that computes and begins at that time or later.
  std::uint32_t place_at(double now) const {
    for (std::uint32_t at = 0; at < end_; ++at)
      if (is_compute(draft_.ops[at].what) && begins_[at] >= now) return at;
    return end_;
  }

  // The sum over replicas of a shard comes after that over its shards.
  void follow() {
    std::vector<const Move*> of_bucket(tables_.buckets.size(), nullptr);
    for (const auto& [at, move] : moved_) of_bucket[draft_.ops[at].item] = &move;
    std::map<std::uint32_t, Move> followers;
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at) {
      const Op& op = draft_.ops[at];
      if (op.what == OpKind::reduce && (op.flags & kOfShard) && of_bucket[op.item] &&
          of_bucket[op.item]->place > at)
        followers[at] = {of_bucket[op.item]->place, of_bucket[op.item]->number + draft_.ops.size()};
    }
    moved_.merge(followers);
  }

  void apply() {
    std::vector<std::uint32_t> sequence(draft_.ops.size());
    std::iota(sequence.begin(), sequence.end(), 0);
    const auto key = [&](std::uint32_t at) {
      const auto found = moved_.find(at);
      // What moved in front of an op stands before it.
      return found == moved_.end() ? std::tuple(at, 1, std::size_t{0})
                                   : std::tuple(found->second.place, 0, found->second.number);
    };
    std::ranges::stable_sort(sequence, {}, key);
    draft_.put_in_order(sequence);
  }

  Draft& draft_;
  const Tables& tables_;
  const SecondsOf& seconds_;
  std::vector<double> begins_;          // per op
  std::vector<std::uint32_t> used_at_;  // per bucket
  std::uint32_t end_ = 0;               // behind the last computation
  std::map<std::uint32_t, Move> moved_;
};

}  // namespace

void prioritise(Draft& draft, const Tables& tables, const SecondsOf& seconds) {
  PriorityPass(draft, tables, seconds).run();
}

}  // namespace tessera::program
