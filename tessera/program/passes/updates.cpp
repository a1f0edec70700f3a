#include "tessera/program/passes/updates.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/program/passes/holdings.hpp"

namespace tessera::program {
namespace {

constexpr std::uint32_t kNowhere = 0xffff'ffffu;

// Per bucket, the place of the first op that computes with it.
std::vector<std::uint32_t> first_uses(const Draft& draft, const Tables& tables) {
  std::vector<std::uint32_t> out(tables.buckets.size(), kNowhere);
  for (std::uint32_t at = 0; at < draft.ops.size(); ++at)
    if (is_compute(draft.ops[at].what))
      for (const std::uint32_t bucket : tables.segments[draft.ops[at].item].buckets)
        out[bucket] = std::min(out[bucket], at);
  return out;
}

// Per bucket, the place of its last reduction, or of the gather that takes the version before the update.
std::vector<std::uint32_t> last_reductions(const Draft& draft, const Tables& tables) {
  std::vector<std::uint32_t> out(tables.buckets.size(), kNowhere);
  for (std::uint32_t at = 0; at < draft.ops.size(); ++at)
    if (const Op& op = draft.ops[at];
        op.what == OpKind::reduce || (op.what == OpKind::gather && tables.buckets[op.item].delayed))
      out[op.item] = at;
  return out;
}

}  // namespace

void add_updates(Draft& draft, const Tables& tables) {
  const bool trains = std::ranges::any_of(draft.ops, [](const Op& op) { return op.what == OpKind::reduce; });
  if (!trains) return;
  const auto held = holdings({draft.ops, {}}, tables).buckets;
  std::vector<std::uint32_t> stepped;
  for (std::uint32_t bucket = 0; bucket < held.size(); ++bucket)
    if (held[bucket] && tables.buckets[bucket].trainable) stepped.push_back(bucket);
  const auto used = first_uses(draft, tables), reduced = last_reductions(draft, tables);
  if (tables.steps_overlap) std::ranges::stable_sort(stepped, {}, [&](std::uint32_t b) { return used[b]; });
  Insertion insertion(draft);
  for (const std::uint32_t bucket : stepped) {
    const bool at_once = tables.steps_overlap && !tables.updates_wait;
    insertion.before(
        at_once ? reduced[bucket] + 1 : static_cast<std::uint32_t>(draft.ops.size()),
        {.what = OpKind::step, .lane = tables.steps_overlap ? kUpdate : kCompute, .item = bucket});
  }
  insertion.apply();
}

}  // namespace tessera::program
