// Builds the model of a run. One function per family, in a file of its own; family.cpp is the one place that
// chooses.
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
};

// The units of the tables (embedding, block.i, head), null where the rank does not hold them; run, buckets
// and share must outlive the model.
Model make(const spec::Run& run, const program::Tables& tables, const RankModel& held);

Model make_llama(const spec::Run& run, const program::Tables& tables, const RankModel& held);
Model make_gpt2(const spec::Run& run, const program::Tables& tables, const RankModel& held);

// All logits of a micro-batch, of a model that is whole on this rank, with Full of every bucket gathered: for
// generation and for comparing with other implementations.
Tensor logits(Model& model, const program::Tables& tables, const Batch& batch);

}  // namespace tessera::model
