#include "tessera/program/passes/offload.hpp"

#include <algorithm>
#include <map>

namespace tessera::program {
namespace {

class OffloadPass {
 public:
  OffloadPass(Draft& draft, const Tables& tables, const Offload& offload)
      : draft_(draft), tables_(tables), offload_(offload), insertion_(draft) {}

  void run() {
    if (offload_.parameters) around_gathers();
    if (offload_.optimizer || offload_.parameters) around_steps();
    if (offload_.values) around_recomputations();
    insertion_.apply();
  }

 private:
  Op op(OpKind what, CellKind kind, std::uint32_t item, std::int32_t micro = kOfStep,
        std::uint16_t flags = 0) const {
    return {.what = what,
            .lane = kCopy,
            .item = item,
            .micro = micro,
            .flags = static_cast<std::uint16_t>(static_cast<std::uint16_t>(kind) | flags)};
  }
  void fetch(std::uint32_t place, CellKind kind, std::uint32_t item, std::int32_t micro = kOfStep) {
    insertion_.wait_for_compute(insertion_.before(place, op(OpKind::fetch, kind, item, micro)));
  }
  void put_away(std::uint32_t place, CellKind kind, std::uint32_t item, std::int32_t micro = kOfStep,
                std::uint16_t flags = 0) {
    insertion_.before(place, op(OpKind::offload, kind, item, micro, flags));
  }

  // A gather reads the shard and leaves it as it is.
  void around_gathers() {
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at) {
      if (draft_.ops[at].what != OpKind::gather) continue;
      fetch(at, CellKind::shard, draft_.ops[at].item);
      put_away(at + 1, CellKind::shard, draft_.ops[at].item, kOfStep, kUnchanged);
    }
  }

  // While a bucket steps, the next one comes and the one before goes. Steps that follow their reductions have
  // gathers between them: nothing comes ahead.
  void around_steps() {
    std::vector<std::uint32_t> steps;
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at)
      if (draft_.ops[at].what == OpKind::step) steps.push_back(at);
    const auto each_kind = [&](auto act) {
      if (offload_.parameters) act(CellKind::shard);
      if (offload_.optimizer) act(CellKind::state);
    };
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const std::uint32_t bucket = draft_.ops[steps[k]].item;
      each_kind([&](CellKind kind) {
        fetch(steps[k == 0 || !tables_.updates_wait ? k : k - 1], kind, bucket);
        put_away(steps[k] + 1, kind, bucket);
      });
    }
  }

  // Whether nothing but recomputed segments reads the value: the tape of another would hold it.
  bool may_leave(std::uint32_t value) const {
    bool is_read = false;
    for (const Segment& segment : tables_.segments) {
      if (std::ranges::count(segment.reads, value) == 0) continue;
      if (!segment.recomputed) return false;
      is_read = true;
    }
    return is_read;
  }

  void around_recomputations() {
    std::vector<bool> leaves(tables_.values.size());
    for (std::uint32_t value = 0; value < leaves.size(); ++value) leaves[value] = may_leave(value);
    struct Readers {
      std::uint32_t last_forward = 0, first_recomputation = 0;
    };
    std::map<std::pair<std::uint32_t, std::int32_t>, Readers> readers;
    std::vector<std::uint32_t> computations;  // places
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at) {
      const Op& at_op = draft_.ops[at];
      if (is_compute(at_op.what)) computations.push_back(at);
      if (at_op.what != OpKind::forward && at_op.what != OpKind::recompute) continue;
      for (const std::uint32_t value : tables_.segments[at_op.item].reads) {
        if (!leaves[value]) continue;
        Readers& found = readers[{value, at_op.micro}];
        if (at_op.what == OpKind::forward)
          found.last_forward = at;
        else if (found.first_recomputation == 0)
          found.first_recomputation = at;
      }
    }
    for (const auto& [cell, found] : readers) {
      const auto left = std::ranges::upper_bound(computations, found.last_forward);
      const auto used = std::ranges::lower_bound(computations, found.first_recomputation);
      // It is back one computation ahead; one that would hardly be away stays.
      constexpr std::ptrdiff_t kWorthIt = 3;
      if (used - left < kWorthIt) continue;
      put_away(found.last_forward + 1, CellKind::value, cell.first, cell.second);
      fetch(*(used - 1), CellKind::value, cell.first, cell.second);
    }
  }

  Draft& draft_;
  const Tables& tables_;
  const Offload offload_;
  Insertion insertion_;
};

}  // namespace

void add_offload(Draft& draft, const Tables& tables, const Offload& offload) {
  if (offload.any()) OffloadPass(draft, tables, offload).run();
}

}  // namespace tessera::program
