#include "tessera/program/passes/draft.hpp"

#include <algorithm>
#include <numeric>

namespace tessera::program {

Sequence Draft::finish(const Tables& tables) {
  std::ranges::stable_sort(waits, {}, &ExtraWait::op);
  Sequence sequence{std::move(ops), {}};
  build_waits(sequence, tables, waits);
  *this = {};
  return sequence;
}

namespace {

ExtraWait moved(const ExtraWait& wait, std::span<const std::uint32_t> new_place) {
  return {new_place[wait.op], new_place[wait.earlier & ~kPreviousStep] | (wait.earlier & kPreviousStep)};
}

}  // namespace

void Draft::put_in_order(std::span<const std::uint32_t> order) {
  std::vector<Op> sorted;
  std::vector<std::uint32_t> new_place(ops.size());
  for (const std::uint32_t at : order) {
    new_place[at] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(ops[at]);
  }
  ops = std::move(sorted);
  for (ExtraWait& wait : waits) wait = moved(wait, new_place);
  std::erase_if(waits, [](const ExtraWait& wait) {
    return !(wait.earlier & kPreviousStep) && wait.earlier >= wait.op;
  });
}

std::vector<std::uint32_t> first_uses(const Draft& draft, const Tables& tables) {
  std::vector<std::uint32_t> out(tables.buckets.size(), kUnused);
  for (std::uint32_t at = 0; at < draft.ops.size(); ++at)
    if (is_compute(draft.ops[at].what))
      for (const std::uint32_t bucket : tables.segments[draft.ops[at].item].buckets)
        out[bucket] = std::min(out[bucket], at);
  return out;
}

std::uint32_t Insertion::before(std::uint32_t place, const Op& op) {
  ops_.push_back(op);
  places_.push_back(place);
  return static_cast<std::uint32_t>(draft_.ops.size() + ops_.size() - 1);
}

void Insertion::apply() {
  const auto num_old = static_cast<std::uint32_t>(draft_.ops.size());
  std::vector<std::uint32_t> order(ops_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return places_[i]; });
  std::vector<Op> merged;
  merged.reserve(num_old + ops_.size());
  std::vector<std::uint32_t> new_place(num_old + ops_.size());
  std::size_t next = 0;
  for (std::uint32_t place = 0; place <= num_old; ++place) {
    for (; next < order.size() && places_[order[next]] == place; ++next) {
      new_place[num_old + order[next]] = static_cast<std::uint32_t>(merged.size());
      merged.push_back(ops_[order[next]]);
    }
    if (place == num_old) break;
    new_place[place] = static_cast<std::uint32_t>(merged.size());
    merged.push_back(draft_.ops[place]);
  }
  for (ExtraWait& wait : draft_.waits) wait = moved(wait, new_place);
  for (const ExtraWait& wait : waits_) draft_.waits.push_back(moved(wait, new_place));
  for (const std::uint32_t op : after_compute_) {
    std::uint32_t at = new_place[op];
    while (at > 0 && merged[at - 1].lane != kCompute) --at;
    if (at > 0) draft_.waits.push_back({new_place[op], at - 1});
  }
  draft_.ops = std::move(merged);
  ops_.clear(), places_.clear(), waits_.clear(), after_compute_.clear();
}

}  // namespace tessera::program
