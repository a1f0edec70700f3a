// What an op reads, makes and ends. This is the one place that knows; the dependency builder, the checker,
// the memory replay and the executor's freeing all ask here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// Note [Rules of lifetime]
// - If a bucket has full_resident, its Full is its Shard: forward and backward read Shard(b), and there is no
//   gather. Otherwise gather makes Full, and only free(Full) ends it.
// - A value ends with the backward (or backward_input) listed in Segment::ends, or with its send.
// - A reduce takes all that WeightGrad holds; with kEndsSource the cell ends too. WeightGrad and Full may be
//   made again in the same step; values, gradients and tapes may not.
// - A forward with a loss adds its sum to Number(loss), and sum(loss) changes it. It is zero on a rank
//   without such a segment.
// - Numbers end with the step, without an op.
// - An optimizer step reads the norm and the verdict on it, or, where it does not wait for them, adds its
//   part of the norm.
// - `adds` changes a cell in place, and makes it if it is absent. Adds to one cell keep their order, so sums
//   are bit-equal.
struct Effects {
  std::vector<Cell> reads, makes, adds, ends;
  std::vector<Cell> leaves, returns;  // to and from host memory: offload, fetch
  std::vector<Cell> writes() const;   // all but the reads
  bool operator==(const Effects&) const = default;
};

// The effects of an op whose indices lie within the tables.
Effects effects(const Op& op, const Tables& tables);

// The same into `out`, reusing its memory.
void effects(const Op& op, const Tables& tables, Effects& out);

// Bytes the cell holds on a rank.
std::int64_t bytes_of(const Cell& cell, const Tables& tables);

// In words: Value(hidden.2, micro 0), Shard(block.1).
std::string to_text(const Cell& cell, const Tables& tables);

}  // namespace tessera::program
