// Costs for a simulation, from the ops of short traced runs.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/program/ir/types.hpp"
#include "tessera/program/schedule/span.hpp"

namespace tessera::simulate {

// What an op is, whatever micro-batch and rank it runs for. A receive is one with its send.
struct OpClass {
  program::OpKind what = program::OpKind::forward;
  std::int64_t segment = -1;  // of compute
  std::int64_t ranks = 1;     // that meet in it
  auto operator<=>(const OpClass&) const = default;
};

// An op as it ran once on one rank.
struct RanOp {
  OpClass kind;
  std::int64_t size = 0;   // op_size of it
  std::string lane, word;  // as in its trace
  std::int64_t group =
      0;  // which of several groups that do the same: the first member's rank, or the sender's
  std::int64_t step = 0;
  program::Span span;
};

OpClass kind_of(const program::Op& op, const program::Tables& tables);

// Bytes that an op's time grows with: of a value of the micro-batch for compute, of the bucket or cell else;
// 0: of none.
std::int64_t op_size(const program::Op& op, const program::Tables& tables);

// Note [Costs of a profile]
// - An op's seconds are the median over steps, micro-batches and ranks.
// - Where ranks meet, the clock starts when the last of them has arrived: waiting is an outcome, not a cost.
// - A size that was not measured takes the seconds of the nearest one that was, in proportion.
// - A backward that was only measured in halves takes the sum of both. A sum or reduction of one rank that
//   was not measured takes no time.
class Profile {
 public:
  // Step 1 of each run pays for pages and caches: leave it out, unless there is no other.
  explicit Profile(std::span<const RanOp> ran);

  // Throws UserError if no op of the kind was measured, saying which run would measure it.
  program::Cost cost(const program::Op& op, const program::Tables& tables) const;

 private:
  std::optional<double> seconds(OpClass kind, std::int64_t size) const;

  std::map<OpClass, std::map<std::int64_t, double>> seconds_;  // by kind and size: medians
};

}  // namespace tessera::simulate
