// A sequence before its waits are derived, into which passes put ops; ops already in it keep their order and
// what else they wait for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/program/ir/types.hpp"
#include "tessera/program/ir/waits.hpp"

namespace tessera::program {

struct Draft {
  std::vector<Op> ops;
  std::vector<ExtraWait> waits;  // besides those that follow from effects

  Sequence finish(const Tables& tables);  // with all waits; leaves the draft empty
  // `order` names every op once. What waited for an op that now comes behind it does so no more.
  void put_in_order(std::span<const std::uint32_t> order);
};

inline constexpr std::uint32_t kUnused = 0xffff'ffffu;

// Per bucket, the place of the first op that computes with it, or kUnused.
std::vector<std::uint32_t> first_uses(const Draft& draft, const Tables& tables);

// Ops put in by one pass, all at once when it is through. Until then ops are named by their place in the
// draft, and new ones by what before() and after() return.
class Insertion {
 public:
  explicit Insertion(Draft& draft) : draft_(draft) {}
  // In front of the op at `place` (or at the end of the draft), behind what was put there earlier.
  std::uint32_t before(std::uint32_t place, const Op& op);
  std::uint32_t after(std::uint32_t place, const Op& op) { return before(place + 1, op); }
  void wait(std::uint32_t op, std::uint32_t earlier) { waits_.push_back({op, earlier}); }
  // What takes memory on another lane must not run ahead of what releases it on the compute lane: the op
  // waits for the last op of that lane in front of it.
  void wait_for_compute(std::uint32_t op) { after_compute_.push_back(op); }
  void apply();

 private:
  Draft& draft_;
  std::vector<Op> ops_;                // new ones
  std::vector<std::uint32_t> places_;  // of each, in the draft
  std::vector<ExtraWait> waits_;
  std::vector<std::uint32_t> after_compute_;
};

}  // namespace tessera::program
