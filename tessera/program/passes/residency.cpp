#include "tessera/program/passes/residency.hpp"

#include <algorithm>
#include <set>

#include "tessera/program/ir/effects.hpp"

namespace tessera::program {
namespace {

constexpr std::uint32_t kNever = 0xffff'ffffu;
// A bucket so many times smaller than the largest is kept: gathering it again costs more than its bytes are
// worth.
constexpr std::int64_t kSmallPart = 64;

// With Full.
bool computes_with_weights(const Op& op) {
  return is_compute(op.what) && op.what != OpKind::backward_weight && !(op.flags & kAhead);
}
bool adds_gradients(const Op& op) {
  return op.what == OpKind::backward || op.what == OpKind::backward_weight;
}

// A gather, before it has its place.
struct Wanted {
  std::uint32_t bucket = 0, needed_at = 0, possible_from = 0;
};

class ResidencyPass {
 public:
  ResidencyPass(Draft& draft, const Tables& tables, const Residency& residency)
      : draft_(draft), tables_(tables), residency_(residency), insertion_(draft) {
    const auto num_buckets = tables.buckets.size();
    uses_.resize(num_buckets), adds_.resize(num_buckets, 0), taken_.resize(num_buckets, 0);
    begun_.resize(num_buckets, false), freed_at_.resize(num_buckets, 0);
    std::int64_t largest = 0;
    for (std::uint32_t at = 0; at < draft.ops.size(); ++at) {
      const Op& op = draft.ops[at];
      if (is_compute(op.what) || op.what == OpKind::send || op.what == OpKind::receive) end_ = at + 1;
      if (computes_with_weights(op))
        for (const std::uint32_t bucket : weights_of(op)) uses_[bucket].push_back(at);
      if (adds_gradients(op))
        for (const std::uint32_t bucket : buckets_of(op)) ++adds_[bucket];
    }
    for (std::uint32_t bucket = 0; bucket < num_buckets; ++bucket)
      if (!uses_[bucket].empty()) largest = std::max(largest, full_bytes(bucket));
    small_bytes_ = largest / kSmallPart;
  }

  void run() {
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at) {
      const Op& op = draft_.ops[at];
      if (!is_compute(op.what) || (op.flags & kAhead)) continue;
      if (computes_with_weights(op)) need(op, at);
      if (adds_gradients(op)) hold_back(op, at);
      for (const std::uint32_t bucket : buckets_of(op)) {
        if (adds_gradients(op) && tables_.buckets[bucket].trainable) take(bucket, at);
        if (next_use(bucket, at) == kNever) free(bucket, at);
      }
      if (!residency_.keeps_full) evict(at);
    }
    for (const std::uint32_t bucket : late_) reduce(bucket, end_, 0);
    for (const std::uint32_t bucket : late_shared_) reduce(bucket, end_, kOfShard);
    put_gathers();
    gather_ahead();
    insertion_.apply();
  }

 private:
  const std::vector<std::uint32_t>& buckets_of(const Op& op) const {
    return tables_.segments[op.item].buckets;
  }
  // What it computes with.
  std::vector<std::uint32_t> weights_of(const Op& op) const {
    std::vector<std::uint32_t> out = buckets_of(op);
    const bool is_backward = op.what == OpKind::backward || op.what == OpKind::backward_input;
    const std::vector<std::uint32_t>& unread = tables_.segments[op.item].forward_only;
    if (is_backward)
      std::erase_if(out, [&](std::uint32_t bucket) { return std::ranges::count(unread, bucket) > 0; });
    return out;
  }
  std::int64_t full_bytes(std::uint32_t bucket) const {
    return bytes_of({CellKind::full, bucket, kOfStep}, tables_);
  }
  Lane lane_over(std::int16_t axes) const {
    return residency_.overlap && axes >= 0 ? communication(axes) : kCompute;
  }
  // The first use behind `at`.
  std::uint32_t next_use(std::uint32_t bucket, std::uint32_t at) const {
    const auto found = std::ranges::upper_bound(uses_[bucket], at);
    return found == uses_[bucket].end() ? kNever : *found;
  }

  void need(const Op& op, std::uint32_t at) {
    for (const std::uint32_t bucket : weights_of(op)) {
      if (tables_.buckets[bucket].full_resident || there_.contains(bucket)) continue;
      there_.insert(bucket);
      if (tables_.buckets[bucket].delayed) continue;
      wanted_.push_back({bucket, at, freed_at_[bucket]});
    }
  }

  void free(std::uint32_t bucket, std::uint32_t at) {
    if (there_.erase(bucket) == 0) return;
    freed_at_[bucket] = at + 1;
    insertion_.after(
        at, {.what = OpKind::free, .item = bucket, .flags = static_cast<std::uint16_t>(CellKind::full)});
    if (tables_.buckets[bucket].delayed) gather(bucket, at + 1);
  }

  // What the next op needs stays; of the rest as much as may be kept, the nearest use first.
  void evict(std::uint32_t at) {
    std::uint32_t next = at + 1;
    while (next < draft_.ops.size() && !computes_with_weights(draft_.ops[next])) ++next;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> others;  // next use and bucket
    for (const std::uint32_t bucket : there_)
      if (const auto use = next_use(bucket, at); use != next && full_bytes(bucket) > small_bytes_)
        others.emplace_back(use, bucket);
    std::ranges::sort(others);
    std::int64_t kept = 0;
    for (const auto& [use, bucket] : others) {
      if (kept + full_bytes(bucket) <= residency_.keep_bytes)
        kept += full_bytes(bucket);
      else
        free(bucket, at);
    }
  }

  // A sharded bucket's whole gradient is released by its reduction. One that begins waits for the reductions
  // before the last, or they would pile up.
  void hold_back(const Op& op, std::uint32_t at) {
    bool begins = false;
    for (const std::uint32_t bucket : buckets_of(op)) {
      begins |=
          tables_.buckets[bucket].trainable && tables_.buckets[bucket].sharded_over >= 0 && !begun_[bucket];
      begun_[bucket] = true;
    }
    if (begins && residency_.holds_back && settled_ != kNever) insertion_.wait(at, settled_);
    settled_ = last_reduction_;
  }

  // Counts what is added to the gradient, and reduces it when enough is.
  void take(std::uint32_t bucket, std::uint32_t at) {
    const Bucket& b = tables_.buckets[bucket];
    const std::int32_t of_micro = std::max(1, adds_[bucket] / tables_.num_micro);
    const bool is_last = ++taken_[bucket] == adds_[bucket];
    const bool is_full = b.sharded_over >= 0 && residency_.reduce_every > 0 &&
                         taken_[bucket] % (residency_.reduce_every * of_micro) == 0;
    if (!is_last && !is_full) return;
    begun_[bucket] = false;
    // Other stages come to it at another time: before the last transfer, ranks could wait for each other in a
    // ring.
    if (tables_.meets_other_stages(b.reduced_over))
      late_.push_back(bucket);
    else
      reduce(bucket, at + 1, 0);
    if (!is_last || b.shared_over < 0) return;
    if (tables_.meets_other_stages(b.shared_over))
      late_shared_.push_back(bucket);
    else
      reduce(bucket, at + 1, kOfShard);
  }

  void reduce(std::uint32_t bucket, std::uint32_t place, std::uint16_t flags) {
    const Bucket& b = tables_.buckets[bucket];
    const std::int16_t along = flags & kOfShard ? b.shared_over : b.reduced_over;
    const std::uint32_t put = insertion_.before(
        place, {.what = OpKind::reduce,
                .lane = lane_over(along),
                .item = bucket,
                .along = along,
                .flags = static_cast<std::uint16_t>(flags & kOfShard ? kOfShard : kEndsSource)});
    if (flags & kOfShard || b.sharded_over < 0) return;
    last_reduction_ = put;
  }

  void put_gathers() {
    for (std::size_t k = 0; k < wanted_.size(); ++k) {
      const Wanted& w = wanted_[k];
      // On the compute lane the first would wait for the optimizer steps of all.
      const bool is_copied =
          tables_.steps_overlap && lane_over(tables_.buckets[w.bucket].sharded_over) == kCompute;
      const std::size_t ahead = is_copied               ? 0
                                : residency_.keeps_full ? k
                                                        : std::min<std::size_t>(k, residency_.prefetch);
      const std::uint32_t place = std::max(wanted_[k - ahead].needed_at, w.possible_from);
      gather(w.bucket, place);
    }
  }

  // For the next step, in time for the first of its forwards that comes in this one.
  void gather_ahead() {
    std::set<std::uint32_t> buckets;
    for (const Op& op : draft_.ops)
      if (op.flags & kAhead) buckets.insert(buckets_of(op).begin(), buckets_of(op).end());
    std::uint32_t place = kNever;
    for (const ExtraWait& wait : draft_.waits)
      if (wait.earlier & kPreviousStep) place = std::min(place, wait.earlier & ~kPreviousStep);
    for (const std::uint32_t bucket : buckets) gather(bucket, place, kAhead);
  }

  void gather(std::uint32_t bucket, std::uint32_t place, std::uint16_t flags = 0) {
    const std::int16_t along = tables_.buckets[bucket].sharded_over;
    const std::uint32_t put = insertion_.before(
        place,
        {.what = OpKind::gather, .lane = lane_over(along), .item = bucket, .along = along, .flags = flags});
    if (!residency_.keeps_full && lane_over(along) != kCompute) insertion_.wait_for_compute(put);
  }

  Draft& draft_;
  const Tables& tables_;
  const Residency residency_;
  Insertion insertion_;
  std::uint32_t end_ = 0;                         // behind the last computation and transfer
  std::vector<std::vector<std::uint32_t>> uses_;  // of Full, by bucket
  std::vector<std::int32_t> adds_, taken_;        // to WeightGrad, by bucket: in all, and so far
  std::vector<bool> begun_;                       // by bucket: WeightGrad is there
  std::vector<std::uint32_t> freed_at_;           // by bucket: the place behind its last free
  std::set<std::uint32_t> there_;                 // buckets whose Full is there
  std::vector<Wanted> wanted_;
  std::vector<std::uint32_t> late_, late_shared_;  // buckets whose reductions come last
  std::int64_t small_bytes_ = 0;
  std::uint32_t last_reduction_ = kNever;  // of a sharded bucket
  std::uint32_t settled_ = kNever;         // the last one when the gradients before these were added
};

}  // namespace

void add_residency(Draft& draft, const Tables& tables, const Residency& residency) {
  ResidencyPass(draft, tables, residency).run();
}

}  // namespace tessera::program
