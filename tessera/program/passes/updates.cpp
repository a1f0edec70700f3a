#include "tessera/program/passes/updates.hpp"

#include <algorithm>

namespace tessera::program {
namespace {

// Per bucket, the place of its last reduction, or of the gather that takes the version before the update.
std::vector<std::uint32_t> last_reductions(const Draft& draft, const Tables& tables) {
  std::vector<std::uint32_t> out(tables.buckets.size(), kUnused);
  for (std::uint32_t at = 0; at < draft.ops.size(); ++at)
    if (const Op& op = draft.ops[at];
        op.what == OpKind::reduce ||
        (op.what == OpKind::gather && tables.buckets[op.item].delayed && !(op.flags & kAhead)))
      out[op.item] = at;
  return out;
}

// Known when a step begins: its sum must not come behind that of the norm of the step before.
bool is_count(Role role) {
  return role == Role::tokens || role == Role::positions || role == Role::tokens_ahead;
}

}  // namespace

void overlap_steps(Tables& tables, bool updates_wait) {
  tables.steps_overlap = true;
  tables.updates_wait = updates_wait;
  for (Number& number : tables.numbers)
    for (const std::int16_t set : sum_sets(number, tables)) {
      AxisSet twin = tables.axis_sets[static_cast<std::size_t>(set)];
      twin.name += is_count(number.role) ? ".counts" : ".sums";
      number.summed_along.push_back(set_of(std::move(twin), tables));
    }
}

void add_updates(Draft& draft, const Tables& tables) {
  const bool trains = std::ranges::any_of(draft.ops, [](const Op& op) { return op.what == OpKind::reduce; });
  if (!trains) return;
  const auto used = first_uses(draft, tables), reduced = last_reductions(draft, tables);
  std::vector<std::uint32_t> stepped;
  for (std::uint32_t bucket = 0; bucket < used.size(); ++bucket)
    if (used[bucket] != kUnused && tables.buckets[bucket].trainable) stepped.push_back(bucket);
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
