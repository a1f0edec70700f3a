// Builds the code of a model. One function per family, in its folder below tessera/families.
#pragma once

#include <span>

#include "tessera/model/unit.hpp"
#include "tessera/parallel/parallel_context.hpp"
#include "tessera/program/ir/tables.hpp"
#include "tessera/shard/flat_bucket.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::model {

// What a rank holds of a model: units by index, the buckets that they read, and its share of their work.
struct RankModel {
  const std::vector<bool>& units;
  std::span<shard::FlatBucket> buckets;
  const parallel::ParallelContext& context;
  std::int64_t channel_ranks = 1;  // ranks of tp among which the heads of queries are cut
  std::int64_t key_ranks = 1;      // of these, those among which the heads of keys and values are
  std::uint64_t seed = 1;          // of dropout
};

// The function of each line of spec/families.def. Gives the units of the tables (embedding, block.i, head),
// null where the rank does not hold them; spec, buckets and context must outlive the model.
#define FAMILY(name, ...) \
  Model make_##name(const spec::Model& spec, const program::Tables& tables, const RankModel& held);
#include "tessera/spec/families.def"
#undef FAMILY

}  // namespace tessera::model
