#include "tessera/program/passes/priority.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "tessera/base/text.hpp"

namespace tessera::program {
namespace {

// The last reduction of a bucket.
struct Reduction {
  std::uint32_t at = 0;       // in the draft
  std::uint32_t used_at = 0;  // the first op that computes with the bucket
  double ready = 0;           // seconds after which its gradient is there
  double seconds = 0;
  std::int64_t bytes = 0;
  std::uint32_t place = 0;   // the op in front of which it comes to stand
  std::size_t num_over = 0;  // of those in front of it, the first so many have ended when it begins
};

constexpr std::size_t kMostChannels = 8;
std::int64_t gradient_bytes(const Bucket& bucket) { return bucket.elements * bytes_of(bucket.gradient); }

class PriorityPass {
 public:
  PriorityPass(Draft& draft, Tables& tables, const Priority& priority)
      : draft_(draft), tables_(tables), priority_(priority) {}

  void run() {
    find_times();
    for (auto& [axes, reductions] : movable()) {
      order(reductions);
      take_channels(reductions);
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
      now += priority_.seconds(op, tables_);
      end_ = at + 1;
    }
    // Behind the last computation come what follows its transfers, and reductions that keep their places.
    while (end_ < draft_.ops.size() && draft_.ops[end_].what != OpKind::sum) ++end_;
  }

  // By the axes that they share, on however many channels.
  std::map<std::vector<std::int16_t>, std::vector<Reduction>> movable() const {
    std::vector<std::uint32_t> last(tables_.buckets.size(), std::numeric_limits<std::uint32_t>::max());
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at)
      if (const Op& op = draft_.ops[at]; op.what == OpKind::reduce && !(op.flags & kOfShard))
        last[op.item] = at;
    std::map<std::vector<std::int16_t>, std::vector<Reduction>> out;
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at) {
      const Op& op = draft_.ops[at];
      if (op.what != OpKind::reduce || last[op.item] != at || tables_.meets_other_stages(op.along)) continue;
      if (op.lane.kind != LaneKind::communication) continue;
      out[tables_.axis_sets[static_cast<std::size_t>(op.along)].axes].push_back(
          {.at = at,
           .used_at = used_at_[op.item],
           .ready = begins_[at],
           .seconds = priority_.seconds(op, tables_),
           .bytes = gradient_bytes(tables_.buckets[op.item])});
    }
    return out;
  }

  // Those on their way share the link: each ends when it would behind the one in front of it.
  void order(std::vector<Reduction>& reductions) const {
    std::vector<Reduction> left = std::move(reductions);
    reductions.clear();
    double now = 0, link_is_free = 0;
    std::vector<double> ends;  // of `reductions`
    std::size_t num_over = 0;  // of them, the first so many
    std::int64_t on_their_way = 0;
    const auto await_first = [&] {
      now = std::max(now, ends[num_over]);
      on_their_way -= reductions[num_over++].bytes;
    };
    while (!left.empty()) {
      now = std::max(now, std::ranges::min(left, {}, &Reduction::ready).ready);
      while (num_over < ends.size() && ends[num_over] <= now) await_first();
      auto next = left.end();
      for (auto it = left.begin(); it != left.end(); ++it)
        if (it->ready <= now && (next == left.end() || it->used_at < next->used_at)) next = it;
      // Another may be ready, and more urgent, when there is room.
      const std::size_t num_on_their_way = ends.size() - num_over;
      const bool is_room =
          num_on_their_way < kMostChannels && on_their_way + next->bytes <= priority_.credit_bytes;
      if (num_on_their_way > 0 && !is_room) {
        await_first();
        continue;
      }
      next->place = std::max(next->at, place_at(now));
      link_is_free = std::max(now, link_is_free) + next->seconds;
      ends.push_back(link_is_free);
      on_their_way += next->bytes;
      next->num_over = num_over;
      reductions.push_back(*next);
      left.erase(next);
    }
    // A lane keeps the order in which its ops stand.
    for (std::size_t i = 1; i < reductions.size(); ++i)
      reductions[i].place = std::max(reductions[i].place, reductions[i - 1].place);
  }

  // By turns as many as are on their way at a time, so that none waits for its channel.
  void take_channels(const std::vector<Reduction>& reductions) {
    std::size_t channels = 1;
    for (std::size_t i = 0; i < reductions.size(); ++i)
      channels = std::max(channels, i + 1 - reductions[i].num_over);
    for (std::size_t i = 0; i < reductions.size(); ++i) {
      const Op op = draft_.ops[reductions[i].at];
      const bool is_tied = tables_.meets_other_stages(tables_.buckets[op.item].shared_over);
      if (i % channels > 0 && !is_tied) take_channel(op.item, op.along, i % channels);
      await_over(reductions, i);
    }
  }

  // Of those on one channel the last is enough.
  void await_over(const std::vector<Reduction>& reductions, std::size_t number) {
    const Reduction& waiting = reductions[number];
    std::vector<Lane> seen = {draft_.ops[waiting.at].lane};
    for (std::size_t i = waiting.num_over; i-- > 0;) {
      const Lane lane = draft_.ops[reductions[i].at].lane;
      if (std::ranges::find(seen, lane) != seen.end()) continue;
      seen.push_back(lane);
      draft_.waits.push_back({waiting.at, reductions[i].at});
    }
  }

  void take_channel(std::uint32_t bucket, std::int16_t set, std::size_t number) {
    AxisSet twin = tables_.axis_sets[static_cast<std::size_t>(set)];
    twin.name += cat(".", number);
    const std::int16_t channel = set_of(std::move(twin), tables_);
    tables_.buckets[bucket].reduced_over = channel;
    for (Op& op : draft_.ops)
      if (op.what == OpKind::reduce && op.item == bucket && !(op.flags & kOfShard))
        op.along = channel, op.lane = communication(channel);
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
  Tables& tables_;
  const Priority& priority_;
  std::vector<double> begins_;          // per op
  std::vector<std::uint32_t> used_at_;  // per bucket
  std::uint32_t end_ = 0;               // behind the last computation
  std::map<std::uint32_t, Move> moved_;
};

}  // namespace

void prioritise(Draft& draft, Tables& tables, const Priority& priority) {
  PriorityPass(draft, tables, priority).run();
}

}  // namespace tessera::program
