// The positions of a sequence that a rank of context parallelism holds, and the messages of its ranks while
// they attend. cp = ring * heads: the ranks of a ring place exchange heads for positions, the places pass
// keys and values round.
//
// The sequence is cut into 2 * ring chunks; place r holds chunks r and 2 * ring - 1 - r, an early and a late
// one, so that causal attention costs all places the same. Its ranks hold neighbouring parts of the two
// chunks laid end to end.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/program/ir/tables.hpp"

namespace tessera::program {

struct ContextSizes {
  std::int64_t ring = 1, heads = 1;
  bool operator==(const ContextSizes&) const = default;
};
struct ContextPlace {
  std::int64_t ring = 0, heads = 0;
  bool operator==(const ContextPlace&) const = default;
};

// Sequences of a multiple of this many positions can be cut so.
std::int64_t context_multiple(const ContextSizes& sizes);

// The positions that the rank at `place` holds, rising, in the order in which it holds them.
std::vector<std::int64_t> context_positions(std::int64_t sequence, const ContextSizes& sizes,
                                            const ContextPlace& place);
// How many of a ring place's positions lie before `position`.
std::int64_t context_positions_before(std::int64_t position, std::int64_t sequence, std::int64_t ring,
                                      std::int64_t place);

// Heads of keys (and of values) that are sent when `heads` ranks exchange heads for positions: each rank must
// get those that its query heads read. As many as there are if they divide; else repeated, once per rank or,
// at worst, per query head.
std::int64_t exchanged_kv_heads(std::int64_t query_heads, std::int64_t kv_heads, std::int64_t ranks);

enum class ContextAxis : std::uint8_t { ring, heads };
struct ContextCall {
  CollectiveKind kind = CollectiveKind::shift;
  ContextAxis axis = ContextAxis::ring;
  std::int64_t bytes = 0;  // that this rank hands in
  bool operator==(const ContextCall&) const = default;
};
struct ContextCalls {
  std::vector<ContextCall> forward, backward;
  bool operator==(const ContextCalls&) const = default;
};

// Of one attention of one micro-batch on one rank.
struct AttentionSizes {
  std::int64_t samples = 0, query_heads = 0, kv_heads = 0;
  std::int64_t positions = 0;  // that the rank holds
  std::int64_t head_dim = 0;
  Dtype compute = Dtype::fp32;
};
// Its collectives, in the order of the calls.
ContextCalls context_calls(const AttentionSizes& attention, const ContextSizes& sizes);

}  // namespace tessera::program
